/** The name of whoever asks where nobody is asked for a key. Imports nothing. */

/** Jobs and records of it name no tenant: there is only one. */
export const anonymousTenant = 'anonymous';
