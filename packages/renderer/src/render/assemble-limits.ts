import { bundleLimits, readPath } from '@sluice/bundle';
import { nftLimits, type Problem } from '@sluice/netfilter';
import type { Service } from './model/model.ts';

const { fileBytesMax, lineBytesMax, filesMax, treeBytesMax } = bundleLimits;

/** `INPUT_TOO_LARGE` for files that nodes refuse because of their size. All texts are ASCII, so that characters are bytes. */
export function sizeProblems(files: readonly (readonly [path: string, text: string])[]): readonly Problem[] {
  const problems: Problem[] = [];
  let bytes = 0;
  for (const [path, text] of files) {
    bytes += text.length;
    if (text.length > fileBytesMax) {
      problems.push(tooLarge(path, `it would have ${text.length} bytes, more than ${fileBytesMax}`));
    } else if (hasLongLine(text)) {
      problems.push(tooLarge(path, `one of its lines would be longer than ${lineBytesMax} bytes`));
    }
  }
  if (files.length > filesMax) {
    problems.push(tooLarge('the bundle', `it would have ${files.length} files, more than ${filesMax}`));
  }
  if (bytes > treeBytesMax) {
    problems.push(tooLarge('the bundle', `it would have ${bytes} bytes, more than ${treeBytesMax}`));
  }
  return problems;
}

/** `INPUT_TOO_LARGE` for Services with a list of endpoints that mode nftables has no slots for. */
export function slotProblems(services: readonly Service[]): readonly Problem[] {
  const { endpointsMax } = nftLimits;
  return services.flatMap(({ namespace, name, ports }) => {
    const lists = ports.flatMap(({ families }) => Object.values(families).map(({ endpoints }) => endpoints.length));
    const longest = Math.max(0, ...lists);
    if (longest <= endpointsMax) return [];
    const why = `it has ${longest} endpoints, and mode nftables takes at most ${endpointsMax} for each port`;
    return [{ ...tooLarge(`Service ${namespace}/${name}`, why), object: `Service ${namespace}/${name}` }];
  });
}

/** Whether 64 KiB of the text have no line end. Checks one position in 64 KiB only. */
function hasLongLine(text: string): boolean {
  let start = 0;
  while (text.length - start > lineBytesMax) {
    const end = text.lastIndexOf('\n', start + lineBytesMax);
    if (end < start) return true;
    start = end + 1;
  }
  return false;
}

function tooLarge(what: string, why: string): Problem {
  const path = readPath(what);
  return {
    code: 'INPUT_TOO_LARGE',
    level: 'error',
    ...(path?.kind === 'service' && { object: `Service ${path.namespace}/${path.name}` }),
    message: `Cannot write ${what}: ${why}; nodes refuse it`,
    hint: 'Split the Service or the cluster, or use fewer endpoints, source ranges or hints',
  };
}
