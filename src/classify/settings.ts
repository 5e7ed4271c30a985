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
}
