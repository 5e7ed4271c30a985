/** Attributes that the conventions ask for and that follow from a label: they make no series of their own. */
import type { EndpointKind } from '../../domain/names.ts';
import { operationNames } from '../trace/gen-ai.ts';

/** `gen_ai.operation.name` of an endpoint; the endpoint's own word where the conventions have none. */
export function operationNameOf(endpoint: string): string {
  // Labels are texts; whatever isn't in the table has no name there.
  return operationNames[endpoint as EndpointKind] ?? endpoint;
}

/** `error.type`: what failed. A client that left is no error by the HTTP conventions. */
export function errorTypeOf(outcome: string): string | undefined {
  return outcome === 'ok' || outcome === 'client_abort' ? undefined : outcome;
}
