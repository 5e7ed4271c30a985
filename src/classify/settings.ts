/** What classification may be told. Every number carries its unit in its name. */

/** Engine-changing routes, closed unless named in `openRoutes` (design decision 8). */
export const controlKeys = [
  'lora',
  'sleep',
  'cache_reset',
  'slots',
  'props',
  'models',
  'pause',
  'abort',
  'profile',
  'scale',
  'weights',
  'rpc',
  'stream_delete',
  'tools',
] as const;

export type ControlKey = (typeof controlKeys)[number];

export interface ClassifySettings {
  readonly openRoutes: readonly ControlKey[];
  /** alias → model name that the backend knows */
  readonly modelAliases: Readonly<Record<string, string>>;
  /** Headers that name a client's session, in lower case, the first of most weight; `x-session-id` unless given. */
  readonly sessionHeaders?: readonly string[];
}

/** How much of a prompt is told apart. */
export interface PrefixSettings {
  /** Chunks kept of one prompt: with 1,024 all of its first megabyte; an image is about three. */
  readonly maxChunks: number;
}

export const prefixDefaults: PrefixSettings = { maxChunks: 1024 };
