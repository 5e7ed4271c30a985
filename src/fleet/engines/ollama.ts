/** Facts of Ollama: version, and the models that are pulled (loaded or not: it loads on demand). */
import { bodyOf, jsonOf, known, type Ask, type EngineReading, type ModelList } from '../facts.ts';
import { asObject, listOf, textOf } from '../json-fields.ts';

export async function readOllama(ask: Ask, models: ModelList | undefined): Promise<EngineReading> {
  const [version, tags] = await Promise.all([ask('/api/version'), ask('/api/tags')]);
  const names = new Set(models?.ids);
  for (const entry of listOf(jsonOf(tags), 'models') ?? []) {
    const name = textOf(asObject(entry), 'model') ?? textOf(asObject(entry), 'name');
    if (name !== undefined) names.add(name);
  }
  // `m:latest` answers to `m` too.
  for (const name of Array.from(names)) if (name.endsWith(':latest')) names.add(name.slice(0, -':latest'.length));
  return {
    facts: known({ version: textOf(jsonOf(version), 'version'), models: [...names] }),
    decisive: [],
  };
}

export async function looksLikeOllama(ask: Ask): Promise<boolean> {
  return (bodyOf(await ask('/')) ?? '').startsWith('Ollama is running');
}
