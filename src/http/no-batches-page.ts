/** What stands at `/batches` where there is no Batch API: whoever looks there is told how to turn it on. */
import { apiOffRemedy } from '../domain/batch-figures.ts';
import type { AdminPage } from './admin-page.ts';

export const noBatchesPage: AdminPage = {
  path: '/batches',
  about: 'the Batch API is off; this page says how to turn it on',
  params: undefined,
  answer: () => ({
    kind: 'missing',
    message: `The Batch API is off here, so there are no batches. ${apiOffRemedy}`,
    code: 'batch_api_off',
  }),
};
