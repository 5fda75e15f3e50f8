/** The parts of a checkout for tests that run in a copy of it: in an emulated guest, or with a mutant. node_modules is provided separately. */
export const checkoutParts = ['packages', 'test', 'tools', 'examples', 'docs', 'bin', 'package.json', 'tsconfig.json'];
