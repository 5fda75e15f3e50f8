/** Where commands look for a bundle when no directory is given. */
export const defaultBundleDir = 'rendered';
