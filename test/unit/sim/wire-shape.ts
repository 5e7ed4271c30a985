/**
 * The shape of an answer: its text with every value replaced by its kind, so that keys, their order, nulls, blanks and number formats
 * can be compared between a recorded answer and a simulated one.
 */
import { readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { takeApart, type TakenApart } from './raw-client.ts';

export interface RecordedAnswer extends TakenApart {
  readonly request: { readonly path: string; readonly body: Readonly<Record<string, unknown>> };
}

export function recorded(name: string): RecordedAnswer {
  const folder = fileURLToPath(new URL(`../../fixtures/recorded/${name}/`, import.meta.url));
  const [head = '', text = ''] = readFileSync(`${folder}request.http`, 'utf8').split('\r\n\r\n');
  const body: unknown = text.startsWith('{') && text.endsWith('}') ? JSON.parse(text) : {};
  return {
    ...takeApart(readFileSync(`${folder}response.http`)),
    request: { path: head.split(' ')[1] ?? '', body: body as Record<string, unknown> }, // an object, since it begins and ends as one
  };
}

/** `"k":"text"` → `"k":S`, whole numbers I, others F; runs of numbers become one. Canned texts have no line ends: that flag is left out. */
export function shapeOf(text: string): string {
  return text
    .replace(/"(?:[^"\\]|\\.)*"(\s*:)?/g, (match, colon: string | undefined) => (colon === undefined ? 'S' : match))
    .replace(/([[:,\s])-?\d+\.\d+(?:e[-+]?\d+)?(?=[,\]}\s]|$)/g, '$1F')
    .replace(/([[:,\s])-?\d+(?=[,\]}\s]|$)/g, '$1I')
    .replace(/\[I(?:,I)+\]/g, '[I]')
    .replace('"has_new_line":true', '"has_new_line":false');
}

/** Shapes of the HTTP chunks in turn, each run of equal ones once. */
export function chunkShapes(answer: TakenApart): string[] {
  const shapes: string[] = [];
  for (const chunk of answer.chunks) {
    const shape = shapeOf(chunk);
    if (shape !== shapes.at(-1)) shapes.push(shape);
  }
  return shapes;
}

/** Header names in order, without the mark of the simulator. */
export function headerNames(answer: TakenApart): string[] {
  return answer.headers.map(([name]) => name).filter((name) => name !== 'x-simulated');
}
