/** Tests against real model servers: one file after another, since the engines need both cores. */
import { defineConfig } from 'vitest/config';

export default defineConfig({
  test: {
    include: ['test/real/**/*.test.ts'],
    testTimeout: 120_000,
    hookTimeout: 360_000,
    pool: 'forks',
    maxWorkers: 1,
    fileParallelism: false,
  },
});
