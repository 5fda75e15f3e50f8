/** Whether this runs in the emulated guest of `vm`, which is some twenty times slower than its machine. */
export const isInGuest = process.env['SLUICE_GUEST'] === '1';

/** The rule store of tests that run in every guest: the kernel in user mode has that of the legacy tools alone. */
export const guestStore: 'nft' | 'legacy' = process.env['SLUICE_GUEST_STORE'] === 'legacy' ? 'legacy' : 'nft';
