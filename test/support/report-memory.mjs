/**
 * Loaded into a process under test (`--expose-gc --import`): on SIGUSR2 it collects garbage and says on stderr what is left,
 * as a log line. Plain JavaScript, since Node loads it as it is.
 */
process.on('SIGUSR2', () => {
  globalThis.gc();
  globalThis.gc();
  const emitters = [process, ...process._getActiveHandles()].filter((each) => typeof each.eventNames === 'function');
  const counts = emitters.flatMap((emitter) => emitter.eventNames().map((name) => emitter.listenerCount(name)));
  const { heapUsed } = process.memoryUsage();
  process.stderr.write(
    `${JSON.stringify({ level: 'debug', msg: 'memory', heapBytes: heapUsed, mostListeners: Math.max(...counts) })}\n`,
  );
});
