/**
 * What one attempt on one backend brought: its events, booked as they come, and the sums at its end. Belongs to the
 * observer, which starts a new one for each attempt. Holds numbers and names, no text.
 */
import type { Engine, StreamFormat } from '../domain/names.ts';
import type { RecordMark, Timeline, TokenCounts, TokenStamps } from '../domain/record.ts';
import { EventFlag, type StreamError } from '../domain/tap.ts';
import { createAnswerReading, type AnswerReading } from './answer.ts';
import { bookToken, createChoiceTrack, type ChoiceTrack } from './choices.ts';
import { bookCounts, countTokens, createTotalCounts, isCachedClamped } from './counts.ts';
import { createEventReader, type EventReader } from './dialect/event-reader.ts';
import type { EngineTimes, EventFacts, Loose } from './dialect/facts.ts';
import type { MeasureSettings } from './settings.ts';
import { StampLog } from './stamps.ts';

export interface AttemptContext {
  readonly format: StreamFormat;
  readonly engine: Engine | undefined;
  /** `n` of the request. */
  readonly choicesAsked: number;
  /** Called once, in the event that brings the first token. */
  readonly onFirstToken: (atMs: number) => void;
}

/** How far an answer has come; ms of the monotonic clock. */
export interface AnswerProgress {
  firstTokenMs: number | undefined;
  lastTokenMs: number | undefined;
  /** of one choice */
  tokens: number;
}

/** Moments that events bring. */
export type EventMoments = Loose<
  Pick<Timeline, 'firstEvent' | 'role' | 'firstToken' | 'firstAnswer' | 'lastToken' | 'finish'>
>;

/** For `build-record.ts` alone, which leaves out what is undefined: an object of one shape is made faster. */
export interface AttemptSums {
  readonly streamed: boolean;
  readonly moments: EventMoments;
  readonly choices: readonly ChoiceTrack[];
  readonly tokens: TokenCounts;
  readonly stamps: TokenStamps | undefined;
  readonly tokenEvents: number;
  readonly finishReasons: readonly string[];
  readonly responseModel: string | undefined;
  readonly engineTimes: EngineTimes | undefined;
  /** A stream without its format's end marker. */
  readonly lacksEnd: boolean;
  readonly marks: readonly RecordMark[];
}

/** A class, since thousands of streams each have one: methods are shared, closures wouldn't be. */
export class Attempt {
  error: StreamError | undefined;
  responseId: string | undefined;
  eventsInRead = 0;
  readonly #settings: MeasureSettings;
  readonly #context: AttemptContext;
  readonly #stamps: StampLog;
  readonly #totals = createTotalCounts();
  /** With room for one choice: an empty list would grow by many at once. */
  readonly #tracks: (ChoiceTrack | undefined)[] = [undefined];
  /** Choices in the order in which they finished. */
  readonly #finished: ChoiceTrack[] = [];
  #reader: EventReader | undefined;
  #answer: AnswerReading | undefined;
  #responseModel: string | undefined;
  #engineTimes: EngineTimes | undefined;
  #choicesAnswered = 1;
  #streamed = false;
  #coalesced = false;
  #malformed = false;
  #tooLarge = false;
  /** Union of the flags of all events. */
  #seen = 0;
  #readMs = 0;
  #tokensInRead = 0;
  #tokenEvents = 0;
  #firstEventMs: number | undefined;
  #roleMs: number | undefined;
  #firstTokenMs: number | undefined;
  #firstAnswerMs: number | undefined;
  #lastTokenMs: number | undefined;
  #finishMs: number | undefined;

  constructor(settings: MeasureSettings, context: AttemptContext) {
    this.#settings = settings;
    this.#context = context;
    this.#stamps = new StampLog(settings.maxStamps);
  }

  /** So far. */
  get tokenEvents(): number {
    return this.#tokenEvents;
  }

  beginRead(atMs: number): void {
    this.#streamed = true;
    this.#readMs = atMs;
    this.#tokensInRead = 0;
    this.eventsInRead = 0;
  }

  /** @returns bits of `EventFlag` */
  event(data: Buffer, start: number, end: number, name: string): number {
    this.#reader ??= createEventReader(this.#context.format, this.#context.engine);
    this.#firstEventMs ??= this.#readMs;
    this.eventsInRead += 1;
    const facts = this.#reader.read(data, start, end, name);
    const flags = facts.next === undefined ? facts.flags : flagsOfChain(facts);
    for (let one: EventFacts | undefined = facts; one !== undefined; one = one.next) this.#book(one);
    this.#seen |= flags;
    return flags;
  }

  gaveUp(): void {
    this.#tooLarge = true;
  }

  /** A piece of an answer that is not a stream. */
  answer(chunk: Buffer): void {
    this.#answer ??= createAnswerReading(this.#settings.maxAnswerValueBytes);
    this.#answer.push(chunk);
  }

  /** The answer that is not a stream is over: what it says counts from now on. */
  answerEnd(): void {
    const read = this.#answer?.end();
    this.#answer = undefined;
    if (read === undefined) return;
    this.#choicesAnswered = read.choices;
    this.#book(read.facts);
  }

  /** What came so far; token events of one choice, where the wire keeps no count. */
  progress(into: AnswerProgress): void {
    const { choicesAsked } = this.#context;
    let told = 0;
    for (const track of this.#tracks) told += track?.outputSoFar ?? 0;
    into.firstTokenMs = this.#firstTokenMs;
    into.lastTokenMs = this.#lastTokenMs;
    into.tokens = Math.max(this.#tokenEvents, told) / choicesAsked;
  }

  /** @param maxOutputTokens what the request allowed, if it said */
  sums(maxOutputTokens: number | undefined): AttemptSums {
    const { engine, format, choicesAsked } = this.#context;
    const streamed = this.#streamed;
    this.answerEnd();
    const choicesAnswered = this.#choicesAnswered;
    const choices = this.#tracks.filter((track) => track !== undefined);
    const counted = { totals: this.#totals, choices, engine, choicesAsked, streamed, choicesAnswered };
    const tokens = countTokens(counted);
    return {
      streamed,
      moments: {
        firstEvent: this.#firstEventMs,
        role: this.#roleMs,
        firstToken: this.#firstTokenMs,
        firstAnswer: this.#firstAnswerMs,
        lastToken: this.#lastTokenMs,
        finish: this.#finishMs,
      },
      choices,
      tokens,
      stamps: this.#stamps.take(),
      tokenEvents: this.#tokenEvents,
      finishReasons: this.#finishReasons(choices, tokens.output?.value, maxOutputTokens),
      responseModel: this.#responseModel,
      engineTimes: this.#engineTimes,
      lacksEnd: streamed && format !== 'unknown' && (this.#seen & EventFlag.done) === 0,
      marks: isCachedClamped(counted, tokens) ? [...this.#marks(), 'cached_clamped'] : this.#marks(),
    };
  }

  #book(facts: EventFacts): void {
    if (facts.deltas.length > 0) this.#bookDeltas(facts);
    if (facts.plain === true) return;
    this.responseId ??= facts.responseId;
    this.#responseModel ??= bounded(facts.responseModel, longestModel);
    this.#engineTimes ??= facts.engineTimes;
    this.error ??= facts.error;
    if (facts.malformed === true) this.#malformed = true;
    this.#bookBorders(facts);
    if (facts.usage !== undefined || facts.timings !== undefined || facts.early !== undefined) {
      bookCounts(this.#totals, this.#spokenOf(facts), facts, this.#context.engine);
    }
    if (facts.choice !== undefined && facts.outputSoFar !== undefined) {
      const track = this.#track(facts.choice);
      track.outputSoFar = Math.max(track.outputSoFar, facts.outputSoFar);
    }
  }

  #bookDeltas(facts: EventFacts): void {
    const atMs = this.#readMs;
    for (const delta of facts.deltas) {
      const coalesced = this.#tokensInRead > 0;
      const told = facts.choice === delta.choice ? facts.outputSoFar : undefined;
      const tokens = bookToken(this.#track(delta.choice), delta, { atMs, outputSoFar: told });
      this.#stamps.add(atMs, { choice: delta.choice, tokens, coalesced });
      if (coalesced) this.#coalesced = true;
      this.#tokensInRead += 1;
      this.#tokenEvents += 1;
      this.#lastTokenMs = atMs;
      if (this.#firstAnswerMs === undefined && (delta.kind === 'text' || delta.kind === 'tool'))
        this.#firstAnswerMs = atMs;
      if (this.#firstTokenMs === undefined) {
        this.#firstTokenMs = atMs;
        this.#context.onFirstToken(atMs);
      }
    }
  }

  /** Where choices begin and end. */
  #bookBorders(facts: EventFacts): void {
    for (const index of facts.roles) {
      this.#roleMs ??= this.#readMs;
      const track = this.#track(index);
      if (track.firstMs === undefined) track.roleMs = this.#readMs;
    }
    for (const { choice, reason } of facts.finishes) {
      const track = this.#track(choice);
      track.finishReason ??= bounded(reason, longestReason);
      // An answer that isn't streamed has no such moment.
      if (!this.#streamed || track.finishMs !== undefined) continue;
      this.#finishMs ??= this.#readMs;
      track.finishMs = this.#readMs;
      track.finishHadToken = facts.deltas.some((delta) => delta.choice === choice);
      this.#finished.push(track);
    }
  }

  /** A usage chunk without choices speaks of the choice that finished last and has none yet (R18). */
  #spokenOf(facts: EventFacts): ChoiceTrack {
    if (facts.choice !== undefined) return this.#track(facts.choice);
    return this.#finished.findLast((track) => track.output === undefined) ?? this.#finished.at(-1) ?? this.#track(0);
  }

  #track(index: number): ChoiceTrack {
    return (this.#tracks[index] ??= createChoiceTrack(index));
  }

  /** llama-server calls a response completed that the length cut (R22): where it used up its allowance, it was cut. */
  #finishReasons(choices: readonly ChoiceTrack[], output: number | undefined, allowed: number | undefined): string[] {
    const { engine, format } = this.#context;
    const usedUp = output !== undefined && allowed !== undefined && output >= allowed;
    const cut = engine === 'llama-server' && format === 'responses' && usedUp;
    const reasons: string[] = [];
    for (const { finishReason } of choices) {
      if (finishReason === undefined) continue;
      reasons.push(cut && finishReason === 'completed' ? 'max_output_tokens' : finishReason);
    }
    return reasons;
  }

  #marks(): RecordMark[] {
    const marks: RecordMark[] = [];
    if (this.#coalesced) marks.push('coalesced');
    if (this.#malformed) marks.push('malformed_event');
    if (this.#tooLarge) marks.push('event_too_large');
    if (this.#stamps.capped) marks.push('stamps_capped');
    return marks;
  }
}

/** Names that a backend makes up are kept so far: a record stays small, and holds no text. */
const longestModel = 512;
const longestReason = 64;

function bounded(text: string, most: number): string;
function bounded(text: string | undefined, most: number): string | undefined;
function bounded(text: string | undefined, most: number): string | undefined {
  if (text === undefined || text.length <= most) return text;
  // A copy: a slice would keep the whole text alive.
  return Buffer.from(text.slice(0, most)).toString();
}

/** Several events in one: whatever one of them says, the whole says, except that it holds nothing but usage. */
function flagsOfChain(first: EventFacts): number {
  let flags = 0;
  let usageOnly: number = EventFlag.usageOnly;
  for (let facts: EventFacts | undefined = first; facts !== undefined; facts = facts.next) {
    flags |= facts.flags;
    usageOnly &= facts.flags;
  }
  return (flags & ~EventFlag.usageOnly) | usageOnly;
}
