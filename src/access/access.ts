/**
 * Who asks, and what they may. Holds the keys' hashes, the tenants' limits and the rules of lanes, all of which a new
 * configuration may change while requests run. Reads no body and sends nothing; the pipeline and the routes ask it.
 */
import type { Job } from '../domain/job.ts';
import type { Refusal } from '../domain/refusal.ts';
import { anonymousTenant } from '../domain/tenant.ts';
import type { Clock } from '../platform/clock.ts';
import { keyHeaders, shownKeys } from './credentials.ts';
import { createKeyring, type Keyring } from './keyring.ts';
import { chooseLane } from './lane-choice.ts';
import type { Access, AccessHead, Caller, Claim, Stay } from './port.ts';
import { keyMissing, keyUnknown, modelNotAllowed } from './refusals.ts';
import type { AccessSettings, AuthSettings, KeySettings, TenantSettings } from './settings.ts';
import { TenantAccount } from './tenant-account.ts';
import { estimateTokens } from './token-estimate.ts';

export interface AccessControl extends Access {
  /** Holds for requests that come from now on. */
  configure(settings: AccessSettings): void;
}

interface KeyEntry {
  readonly sha256: string;
  readonly caller: Caller;
}

type TenantTerms = Pick<Caller, 'weight' | 'models' | 'ids'>;

/** What is asked of keys, as one configuration has it. */
interface Book {
  readonly keyring: Keyring<KeyEntry>;
  readonly tenants: ReadonlyMap<string, TenantTerms>;
  /** Of whoever has no key any more, but batches under way. */
  readonly keyless: TenantTerms;
  /** Browsers send no key when they ask whether they may. */
  readonly preflight: Caller;
}

const anybody: Caller = { tenant: anonymousTenant, lane: 'online', weight: 1, keyIsOurs: false };

const free: Claim = { ended() {} };

/** Of whoever has no limits. */
const unlimited: Stay = { headers: [], ended() {} };

export function createAccess(settings: AccessSettings, { clock }: { readonly clock: Clock }): AccessControl {
  const accounts = new Map<string, TenantAccount>();
  let { rules } = settings;
  let book = opened(settings.auth);

  function opened(auth: AuthSettings | undefined): Book | undefined {
    keepAccounts(accounts, auth?.tenants ?? [], () => clock.nowMs());
    return auth === undefined ? undefined : bookOf(auth);
  }

  return {
    configure(next) {
      ({ rules } = next);
      book = opened(next.auth);
    },
    caller(head) {
      if (book === undefined) return anybody;
      const keys = shownKeys(head);
      let found: Caller | undefined;
      for (const key of keys) {
        const entry = book.keyring.find(key);
        found ??= entry?.caller;
      }
      if (found !== undefined) return found;
      if (isPreflight(head)) return book.preflight;
      return keys.length === 0 ? keyMissing() : keyUnknown();
    },
    lane: ({ lane, tenant }, head, job) => chooseLane(rules, { lane, tenant, head, job }),
    place({ tenant, models }, job) {
      return modelRefusal(models, job) ?? accounts.get(tenant)?.enter(estimateTokens(job)) ?? unlimited;
    },
    claim: (tenant) => accounts.get(tenant)?.claim() ?? free,
    line(tenant, job) {
      const terms = book?.tenants.get(tenant);
      return modelRefusal(terms?.models, job) ?? terms ?? book?.keyless ?? anybody;
    },
  };
}

function bookOf({ keys, tenants, dropHeaders, unknownIds }: AuthSettings): Book {
  const ids = unknownIds === 'pass' ? 'own_or_unknown' : 'own';
  const terms = new Map(tenants.map((tenant) => [tenant.name, termsOf(tenant, ids)]));
  const dropped: ReadonlySet<string> = new Set([...keyHeaders, ...dropHeaders]);
  const callerOf = ({ tenant, lane }: KeySettings): Caller => {
    const { weight, models } = terms.get(tenant) ?? anybody;
    const caller: Caller = { tenant, lane, weight, keyIsOurs: true, dropped, ids };
    return models === undefined ? caller : { ...caller, models };
  };
  return {
    keyring: createKeyring(keys.map((key) => ({ sha256: key.sha256, caller: callerOf(key) }))),
    tenants: terms,
    keyless: { weight: 1, ids },
    preflight: { ...anybody, keyIsOurs: true, dropped, preflight: true },
  };
}

function termsOf({ weight, models }: TenantSettings, ids: NonNullable<Caller['ids']>): TenantTerms {
  return models === undefined ? { weight, ids } : { weight, ids, models: new Set(models) };
}

/**
 * What was used stays known, also of who has no limits any more or no key: to leave out a limit and bring it back is no way to a
 * fresh minute, and what runs still counts. A name that nobody has goes once nothing runs under it and all is paid.
 */
function keepAccounts(
  accounts: Map<string, TenantAccount>,
  tenants: readonly TenantSettings[],
  nowMs: () => number,
): void {
  const limited = tenants.filter(({ limits }) => Object.keys(limits).length > 0);
  const names = new Set(limited.map(({ name }) => name));
  for (const [name, account] of accounts) {
    if (names.has(name)) continue;
    if (account.isIdle()) accounts.delete(name);
    else account.limit({});
  }
  for (const { name, limits } of limited) {
    const account = accounts.get(name);
    if (account === undefined) accounts.set(name, new TenantAccount(limits, nowMs));
    else account.limit(limits);
  }
}

/** https://fetch.spec.whatwg.org/#cors-preflight-fetch. It has no body: one with a body needs a key like any request. */
function isPreflight(head: AccessHead): boolean {
  if (head.method !== 'OPTIONS' || head.header('transfer-encoding') !== undefined) return false;
  if (Number(head.header('content-length') ?? 0) !== 0) return false;
  return head.header('origin') !== undefined && head.header('access-control-request-method') !== undefined;
}

/**
 * A request that names no model could get any. What needs none may pass: the list (which is cut to size), and what is known
 * by the id that its answer had.
 */
function modelRefusal(models: ReadonlySet<string> | undefined, job: Job): Refusal | undefined {
  if (models === undefined) return undefined;
  const { model, servedModel } = job;
  if (model !== undefined) {
    const allowed = models.has(model) || (servedModel !== undefined && models.has(servedModel));
    return allowed ? undefined : modelNotAllowed(model);
  }
  if (job.endpoint === 'models' || (job.stickyKey !== undefined && !job.generates)) return undefined;
  return modelNotAllowed(undefined);
}
