/**
 * Which profile a request is held to: what its header names, else its route's, else its model's, else the default. Pure.
 * Of the batch lane only the header counts: profiles say what users were promised, and batch waits so that they get it.
 * A name that no profile has is passed over and counted, since a label must not cost anybody an answer.
 */
import type { Job } from '../../domain/job.ts';
import { generatingEndpoints, type Lane } from '../../domain/names.ts';
import type { RequestRecord } from '../../domain/record.ts';
import { noProfile, type SloProfile, type SloSettings } from './slo-settings.ts';

export interface Match {
  readonly profile?: SloProfile;
  /** The header named a profile that there is not. */
  readonly unknownName?: true;
}

const nothing: Match = {};

/** What of a request says which profile is meant; all of it but the model of the answer is known before it is sent. */
export type Matched = Pick<RequestRecord, 'path' | 'endpoint' | 'model' | 'responseModel'> & {
  readonly lane?: Lane;
};

export type SloMatcher = (record: Matched, job: Job | undefined) => Match;

/** @param aliases model names that stand for others */
export function createSloMatcher(settings: SloSettings, aliases: Readonly<Record<string, string>>): SloMatcher {
  const profiles = new Map(settings.profiles.map((profile) => [profile.name, profile]));
  const routes = named(settings.routes, profiles);
  const models = named(settings.models, profiles);
  const fallback = settings.fallback === undefined ? undefined : profiles.get(settings.fallback);

  function byModel(record: Matched): SloProfile | undefined {
    const { model, responseModel } = record;
    const asked = model === undefined ? undefined : models.get(model);
    if (asked !== undefined) return asked;
    const meant = model !== undefined && Object.hasOwn(aliases, model) ? aliases[model] : responseModel;
    return meant === undefined ? undefined : models.get(meant);
  }

  function configured(record: Matched, generates: boolean): SloProfile | undefined {
    if (record.lane === 'batch') return undefined;
    const byRoute = routes.get(record.path) ?? routes.get(record.endpoint);
    if (byRoute !== undefined) return byRoute;
    return generates ? (byModel(record) ?? fallback) : undefined;
  }

  return (record, job) => {
    const asked = job?.slo;
    if (asked === noProfile) return nothing;
    const profile = asked === undefined ? undefined : profiles.get(asked);
    if (profile !== undefined) return { profile };
    // What was refused before it was classified: its path says whether it would have generated.
    const found = configured(record, job?.generates ?? generatingEndpoints.has(record.endpoint));
    return {
      ...(found === undefined ? {} : { profile: found }),
      ...(asked === undefined ? {} : { unknownName: true }),
    };
  };
}

function named(
  names: Readonly<Record<string, string>>,
  profiles: ReadonlyMap<string, SloProfile>,
): ReadonlyMap<string, SloProfile> {
  const found = new Map<string, SloProfile>();
  for (const [key, name] of Object.entries(names)) {
    const profile = profiles.get(name);
    if (profile !== undefined) found.set(key, profile);
  }
  return found;
}
