/** Opens both listeners, or none: who can't have the second one's port gives the first one's back. */
import { type FetchApp, type Listener, type ListenerOptions, openListener } from './listener.ts';

/** What holds for both. */
export type CommonOptions = Pick<ListenerOptions, 'requestHeadMs' | 'requestMs' | 'halfClose'>;

export type OwnOptions = Omit<ListenerOptions, keyof CommonOptions> & { readonly app: FetchApp };

/** @throws the system's error when one of the addresses can't be had (EADDRINUSE, EACCES, …) */
export async function openListeners(
  common: CommonOptions,
  { app, ...options }: OwnOptions,
  { app: adminApp, ...adminOptions }: OwnOptions,
): Promise<{ readonly data: Listener; readonly admin: Listener }> {
  const data = await openListener(app, { ...common, ...options });
  try {
    return { data, admin: await openListener(adminApp, { ...common, ...adminOptions }) };
  } catch (error) {
    data.destroy();
    await data.close();
    throw error;
  }
}
