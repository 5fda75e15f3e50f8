/** Whether this runs in a guest of `vm`: an emulated one is some twenty times slower than its machine, a kernel in user mode three times. */
export const isInGuest = process.env['SLUICE_GUEST'] === '1';

/** The rule store of tests that run in every guest: the kernel in user mode has that of the legacy tools alone. */
export const guestStore: 'nft' | 'legacy' = process.env['SLUICE_GUEST_STORE'] === 'legacy' ? 'legacy' : 'nft';
