import { describe, expect, it } from 'vitest';

import { createOwnClient, ownHead, ownUpload } from '../../../src/platform/own-client.ts';

describe("the client's side of an own request", () => {
  it('says once that it has left, also to who asks late', () => {
    const heard: string[] = [];
    const client = createOwnClient();
    client.onGone(() => heard.push('first'));
    client.leave();
    client.leave();
    client.onGone(() => heard.push('late'));
    expect(heard).toEqual(['first', 'late']);
    expect(client.gone).toBe(true);
  });

  it('can not leave once it has its answer', () => {
    const heard: string[] = [];
    const client = createOwnClient();
    client.onGone(() => heard.push('gone'));
    client.end();
    client.leave();
    expect(client.gone).toBe(false);
    expect(heard).toEqual([]);
  });

  it('has a head that names what it sends, and the whole body', async () => {
    const head = ownHead({ requestId: 'r', target: '/x', receivedMs: 5 });
    expect(head).toMatchObject({ method: 'POST', target: '/x', requestId: 'r', receivedMs: 5 });
    expect(head.header('content-type')).toBe('application/json');
    expect(head.header('authorization')).toBeUndefined();
    expect(head.header('toString')).toBeUndefined();
    const upload = ownUpload(Buffer.from('{"a":1}'));
    expect(upload.bytes).toBe(7);
    const chunks: Buffer[] = [];
    for await (const chunk of upload.stream) chunks.push(chunk as Buffer);
    expect(Buffer.concat(chunks).toString()).toBe('{"a":1}');
  });
});
