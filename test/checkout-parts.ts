/** What of a checkout the tests need that run in a copy of it: in an emulated guest, or with a line made wrong. node_modules comes otherwise. */
export const checkoutParts = ['packages', 'test', 'tools', 'examples', 'docs', 'bin', 'package.json', 'tsconfig.json'];
