/** Opens the prompt trace that the config names, and says in the log when it ends. */
import { createAppendFile } from '../../platform/append-file.ts';
import type { Log } from '../../platform/log.ts';
import { createPromptTrace, type PromptTrace } from './prompt-trace.ts';
import type { PromptTraceSettings } from './settings.ts';

/** @returns undefined when none is wanted */
export function openPromptTrace({ file, maxBytes }: PromptTraceSettings, log: Log): PromptTrace | undefined {
  if (file === undefined) return undefined;
  const appended = createAppendFile(
    { path: file, maxBytes },
    {
      ended(why) {
        if (why.kind === 'full') log.info('the prompt trace is full and ends here', { file, maxBytes });
        else log.warn('the prompt trace can not be written and ends here', { file, error: String(why.error) });
      },
    },
  );
  return createPromptTrace({ file: appended });
}
