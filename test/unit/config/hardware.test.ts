import { describe, expect, it } from 'vitest';
import { cardNames } from '../../../src/account/ceiling/settings.ts';
import { configOf, problemsOf } from './load-text.ts';

describe('hardware and shapes in the config', () => {
  it('reach the ceiling, under the name of their backend, and not the fleet', () => {
    const config = configOf(`
backends:
  - url: http://127.0.0.1:8000
    hardware: { gpu: h100-sxm, count: 2, pricePerHour: 5.2 }
  - { url: "http://127.0.0.1:8001", name: plain }
  - { url: "http://127.0.0.1:8002", name: mac, hardware: { bandwidthGBps: 409.6 } }
models:
  shapes:
    - { model: qwen, params: 32.8e9, weightFormat: bf16 }
`);
    expect(config.ceiling).toEqual({
      hardware: [
        { backend: '127.0.0.1:8000', hardware: { gpu: 'h100-sxm', count: 2, pricePerHour: 5.2 } },
        { backend: 'mac', hardware: { bandwidthGBps: 409.6 } },
      ],
      shapes: [{ model: 'qwen', params: 32.8e9, weightFormat: 'bf16' }],
    });
    expect(config.fleet.backends[0]).toEqual({ name: '127.0.0.1:8000', url: 'http://127.0.0.1:8000' });
  });

  it('are nothing by default', () => {
    expect(configOf('').ceiling).toEqual({ hardware: [], shapes: [] });
  });

  it('take a config.json from beside the file', () => {
    const beside = { 'm.json': '{"model_type":"llama"}' };
    const { shapes } = configOf('models: { shapes: [{ model: m, configFile: m.json }] }', { beside }).ceiling;
    expect(shapes).toEqual([{ model: 'm', configJson: { model_type: 'llama' } }]);
  });

  it('take no device for a config.json, which may never end', () => {
    const text = 'models: { shapes: [{ model: m, configFile: /dev/zero }, { model: n, configFile: / }] }';
    expect(problemsOf(text)).toEqual([
      'w.yaml:1:44 models.shapes[0].configFile: this is no regular file',
      'w.yaml:1:81 models.shapes[1].configFile: this is a folder; name the config.json in it',
    ]);
  });

  it('say what is wrong, all of it, with its place', () => {
    const text = `backends:
  - url: http://127.0.0.1:8000
    hardware: { gpu: h100, count: 0, peakTflops: -1, memoryGb: 80 }
models:
  shapes:
    - model: m
      configFile: gone.json
    - model: n
      configFile: bad.json
    - model: m
`;
    expect(problemsOf(text, { beside: { 'bad.json': '{' } })).toEqual([
      `w.yaml:3:22 backends[0].hardware.gpu: must be one of ${cardNames.join(', ')}, not "h100"`,
      'w.yaml:3:35 backends[0].hardware.count: must be a whole number of cards from 1 to 4096, not 0',
      'w.yaml:3:50 backends[0].hardware.peakTflops: must be a number of TFLOP/s above 0 and up to 1000000, not -1',
      'w.yaml:3:54 backends[0].hardware.memoryGb: unknown key; did you mean "memoryGiB"?',
      'w.yaml:7:19 models.shapes[0].configFile: the file is not there',
      'w.yaml:9:19 models.shapes[1].configFile: the file is no JSON',
      'w.yaml:10:7 models.shapes[2]: this model has a shape above; keep one',
    ]);
  });
});
