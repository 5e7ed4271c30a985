/**
 * The warm index: what each backend is believed to hold of which prompts. It owns the table, the rates and the backends'
 * horizons, and puts together what the files beside it do; it knows no engine's wire format and sends nothing.
 */
import { createHolder, fullShareOf, heldTokensOf, knownHorizonTokens, seeBackend, type Holder } from './holder.ts';
import { createHorizon } from './horizon.ts';
import { firstHorizonTokens } from './cache-policy.ts';
import { lookAt } from './look.ts';
import type { FlushReason, WarmIndex } from './port.ts';
import { createForkDepths } from './fork-depths.ts';
import { createPromptEnds } from './prompt-ends.ts';
import { viewPrompt, type PromptView } from './prompt-view.ts';
import { warmDefaults, type WarmSettings } from './settings.ts';
import { createStampTable } from './stamp-table.ts';
import { createTokenRates } from './token-rates.ts';
import { beginVisit, endVisit } from './visits.ts';
import type { PrefixChain } from '../../domain/prefix.ts';

export interface WarmIndexDeps {
  /** Monotonic; for the drift alarm only. */
  nowMs(): number;
  /** A backend's part was dropped, by whom or why ever. */
  flushed?(backend: string, why: FlushReason): void;
}

/** More backends than anyone has; of those never said to be removed, the one that was first seen goes first. */
const maxHolders = 4096;

export function createWarmIndex(settings: WarmSettings, deps: WarmIndexDeps): WarmIndex {
  const table = createStampTable(settings.maxEntries);
  const rates = createTokenRates();
  const ends = createPromptEnds(settings.maxPromptEnds ?? warmDefaults.maxPromptEnds);
  const forks = createForkDepths();
  const holders = new Map<string, Holder>();
  const lookDeps = { table, ends, holders, settings };
  const visitDeps = { table, ends, rates, nowMs: () => deps.nowMs(), flush };
  let owners = 0;
  let last: PromptView | undefined;

  function holderOf(name: string): Holder {
    const known = holders.get(name);
    if (known !== undefined) return known;
    if (holders.size >= maxHolders) holders.delete(holders.keys().next().value ?? '');
    const fresh = createHolder(name, (owners += 1));
    holders.set(name, fresh);
    return fresh;
  }

  /** A choice looks at a prompt and then sends it: its tokens are counted once. */
  function viewOf(chain: PrefixChain, model: string | undefined): PromptView {
    if (last === undefined || last.chain !== chain || last.model !== model)
      last = viewPrompt(chain, model, { rates, ends, forks });
    return last;
  }

  function flush(holder: Holder, why: FlushReason): void {
    holder.formerOwner = holder.owner;
    holder.owner = owners += 1;
    holder.flushedFor = why;
    holder.flushes += 1;
    holder.zeros = 0;
    holder.provenAge = 0;
    holder.doubted = false;
    holder.chunks = 0;
    holder.chunkTokens = 0;
    holder.under.length = 0;
    // Another process may have another cache; the same one, emptied, has what was learnt.
    if (why === 'restarted') {
      holder.horizon = createHorizon(firstHorizonTokens(holder.policy));
      // The next view makes another mirror.
      holder.mirror = undefined;
      holder.view = undefined;
    } else {
      holder.horizon.watermark = -Infinity;
      holder.horizon.emptiedAt = holder.horizon.inserted;
      holder.mirror?.empty();
    }
    deps.flushed?.(holder.name, why);
  }

  return {
    look: (chain, backends, model) => lookAt(viewOf(chain, model), backends, lookDeps),
    visit(backend, chain, model) {
      const holder = holderOf(backend.name);
      seeBackend(holder, backend, settings);
      const visit = beginVisit(holder, viewOf(chain, model), visitDeps);
      let open = true;
      return {
        computed() {
          visit.underway.computed = true;
        },
        end(told) {
          if (!open) return;
          open = false;
          last = undefined;
          endVisit(visit, told, visitDeps);
        },
      };
    },
    flush(backend, why) {
      const holder = holders.get(backend);
      if (holder === undefined) return;
      flush(holder, why);
      if (why === 'removed') holders.delete(backend);
    },
    heldTokens(backend) {
      const holder = holders.get(backend);
      return holder === undefined ? 0 : heldTokensOf(table, holder);
    },
    fullShare(backend) {
      const holder = holders.get(backend);
      return holder === undefined ? 0 : fullShareOf(holder);
    },
    stats: () => ({
      entries: table.entries,
      maxEntries: settings.maxEntries,
      bytes: table.bytes + ends.bytes + forks.bytes + mirroredBytes(holders.values()),
      trimmed: table.trimmed,
      backends: [...holders.values()].map((holder) => {
        const { bias, error } = holder.accuracy;
        const horizonTokens = knownHorizonTokens(holder);
        return {
          backend: holder.name,
          entries: table.entriesOf(holder.owner),
          heldTokens: heldTokensOf(table, holder),
          ...(horizonTokens === undefined ? {} : { horizonTokens }),
          ...(bias === undefined ? {} : { bias }),
          ...(error === undefined ? {} : { error }),
          flushes: holder.flushes,
          driftResets: holder.driftResets,
          distrusted: holder.distrusted,
          ...(holder.mirror === undefined ? {} : { sequences: holder.mirror.measure().sequences }),
        };
      }),
    }),
  };
}

function mirroredBytes(holders: Iterable<Holder>): number {
  let bytes = 0;
  for (const { mirror } of holders) bytes += mirror?.measure().bytes ?? 0;
  return bytes;
}
