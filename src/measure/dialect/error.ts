/**
 * Errors inside an answer, in all the shapes that engines use: OpenAI's nested object, SGLang's flat one, TGI's and
 * Ollama's strings, Anthropic's and the Responses API's events. Pure.
 */
import type { StreamError } from '../../domain/tap.ts';
import { isObject, textAt, type JsonObject } from './facts.ts';

/** An engine may put a prompt into its message; a record isn't the place for it. */
const maxMessageLength = 500;
/** The client gets the engine's error whole, up to this size. */
const maxBodyBytes = 16 * 1024;

/**
 * @param name value of the `event:` line: `error` makes an error of any body
 * @returns what the object reports, or undefined when it is no error
 */
export function readError(json: JsonObject, name: string): StreamError | undefined {
  const { error } = json;
  if (isObject(error)) return errorOf(error, json);
  if (typeof error === 'string' && error !== '') return errorOf({ message: error, type: json.error_type }, json);
  if (name === 'error' || json.object === 'error' || json.type === 'error') return errorOf(json, json);
  const failed = json.type === 'response.failed' && isObject(json.response) ? json.response.error : undefined;
  if (failed !== undefined) return errorOf(isObject(failed) ? failed : {}, json);
  return undefined;
}

function errorOf(body: JsonObject, around: JsonObject): StreamError {
  const status =
    statusOf(body.code) ?? statusOf(body.http_status_code) ?? statusOf(body.status) ?? statusOf(around.code);
  const type = textAt(body, 'type') ?? (typeof body.code === 'string' ? body.code : undefined);
  const message = textAt(body, 'message') ?? textAt(around, 'message') ?? type ?? 'error';
  return {
    message: message.slice(0, maxMessageLength),
    ...(type === undefined ? {} : { type }),
    ...(status === undefined ? {} : { status }),
    ...bodyOf(body),
  };
}

function bodyOf(error: JsonObject): { readonly body?: string } {
  if (textAt(error, 'message') === undefined) return {};
  const body = JSON.stringify(error);
  return Buffer.byteLength(body) > maxBodyBytes ? {} : { body };
}

/** A status is a number, or three digits in a string; other codes are words. */
function statusOf(code: unknown): number | undefined {
  const value = typeof code === 'string' && /^[45]\d\d$/.test(code) ? Number(code) : code;
  return typeof value === 'number' && Number.isInteger(value) && value >= 400 && value <= 599 ? value : undefined;
}
