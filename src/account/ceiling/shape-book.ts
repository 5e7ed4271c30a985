/**
 * Which shape a request's model has on a backend: the config's word for the model first, then llama-server's own word. Of
 * the weights' bytes the engine's word beats what is reckoned: the file that it loaded may be another than the one described.
 * Keeps what it has built; bounded by the config and by the models that backends are known to serve.
 */
import type { ModelSize } from '../../domain/fleet.ts';
import { shapeFromSettings } from './hugging-face-shape.ts';
import { llamaShape, type ModelShape, withEngineBytes } from './model-shape.ts';
import type { ShapeSettings } from './settings.ts';

/** What the fleet knows of a backend's models. */
export interface ServedModels {
  readonly models: readonly string[];
  readonly size?: ModelSize | undefined;
  /** All of these models share one set of weights (adapters of one base), so that one's shape is every one's. */
  readonly oneBase: boolean;
}

export interface ShapeBook {
  /** @param names of the model, best first: as the answer, and as the request named it */
  find(names: readonly (string | undefined)[], served: ServedModels | undefined): ModelShape | undefined;
  /** Shapes of what a backend serves, by model. */
  shapesOf(served: ServedModels): readonly { readonly model: string; readonly shape: ModelShape }[];
  /** What is wrong with the files that the config names. */
  readonly problems: readonly { readonly model: string; readonly message: string }[];
}

interface Held {
  readonly settings: ShapeSettings;
  readonly shape: ModelShape;
}

export function createShapeBook(settings: readonly ShapeSettings[]): ShapeBook {
  const byModel = new Map<string, Held>();
  const problems: { model: string; message: string }[] = [];
  for (const one of settings) {
    const { shape, problem } = shapeFromSettings(one);
    byModel.set(one.model, { settings: one, shape });
    if (problem !== undefined) problems.push({ model: one.model, message: problem });
  }
  /** The fleet gives the same object until something changes there. */
  const bySize = new WeakMap<ModelSize, Map<Held | undefined, ModelShape>>();

  function sizedShape(size: ModelSize, held: Held | undefined): ModelShape {
    const made = bySize.get(size) ?? new Map<Held | undefined, ModelShape>();
    bySize.set(size, made);
    const shape = made.get(held) ?? sized(size, held);
    made.set(held, shape);
    return shape;
  }

  function find(names: readonly (string | undefined)[], served: ServedModels | undefined): ModelShape | undefined {
    const others = served !== undefined && (served.oneBase || served.models.length === 1) ? served.models : [];
    const known = [...names, ...others].find((name) => name !== undefined && byModel.has(name));
    const held = known === undefined ? undefined : byModel.get(known);
    return served?.size === undefined ? held?.shape : sizedShape(served.size, held);
  }

  return {
    find,
    shapesOf(served) {
      const models = served.models.filter((name) => byModel.has(name));
      if (models.length === 0 && served.size !== undefined) models.push(...served.models.slice(0, 1));
      return models.flatMap((model) => {
        const shape = find([model], { ...served, models: [model] });
        return shape === undefined ? [] : [{ model, shape }];
      });
    },
    problems,
  };
}

/** The config's shape with the engine's bytes in it; where the config tells next to nothing, the engine's own shape. */
function sized(size: ModelSize, held: Held | undefined): ModelShape {
  const { params, weightBytes } = held?.shape ?? {};
  if (held === undefined || (params === undefined && weightBytes === undefined))
    return llamaShape(size, held?.settings);
  return withEngineBytes(held.shape, size);
}
