import { expect, it } from 'vitest';

import { routeTemplate } from '../../../src/classify/route-template.ts';

it.each([
  ['POST', '/v1/chat/completions?x=1', '/v1/chat/completions'],
  ['POST', '/v1/chat%2Fcompletions', '/v1/chat/completions'],
  ['GET', '/v1/models', '/v1/models'],
  ['GET', '/v1/models/a/b', '/v1/models/{model}'],
  ['GET', '/v1/responses/resp_1', '/v1/responses/{id}'],
  ['POST', '/v1/responses/resp_1/cancel', '/v1/responses/{id}/{rest}'],
  ['DELETE', '/v1/conversations/c', '/v1/conversations/{id}'],
  ['POST', '/invocations', '/invocations'],
  ['POST', '/', '/'],
  ['GET', '/', undefined],
  ['POST', '/anything/42', undefined],
  ['POST', '/any/prefix/sleep', undefined],
  ['GET', '/v1/chat/completions', undefined],
])('%s %s has the route %s', (method, target, route) => {
  expect(routeTemplate(method, target)).toBe(route);
});
