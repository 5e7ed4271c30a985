/** Resolves with the promise, or after so long; leaves no timer behind that would keep the process alive. */
export function within(done: Promise<unknown>, ms: number): Promise<void> {
  return new Promise((resolve) => {
    const timer = setTimeout(resolve, ms);
    void done.then(() => {
      clearTimeout(timer);
      resolve();
    });
  });
}
