/**
 * The route of a path as telemetry names it: one of a closed set, with ids and names of models left out, so that it can
 * be a span's name or a label. Decides nothing about a request.
 */
import { findEndpoint } from './endpoint-table.ts';
import { matchedPath, splitTarget } from './request-path.ts';

/** @returns undefined for paths that warmlane knows nothing of, and for engine-changing ones, which come under any prefix */
export function routeTemplate(method: string, target: string): string | undefined {
  const endpoint = findEndpoint(method, target);
  const path = matchedPath(splitTarget(target).path);
  if (endpoint.pathModel !== undefined) return '/v1/models/{model}';
  if (endpoint.pathId !== undefined) {
    const [, kept, , deeper] = /^\/v1\/(responses|conversations|chat\/completions)\/([^/]+)(\/.+)?$/.exec(path) ?? [];
    return kept === undefined ? undefined : `/v1/${kept}/{id}${deeper === undefined ? '' : '/{rest}'}`;
  }
  if (endpoint.kind === 'control') return undefined;
  // All other kinds are found by their whole path, so there are no more of these than rows in the table.
  return endpoint.kind === 'other' && !endpoint.generates ? undefined : path;
}
