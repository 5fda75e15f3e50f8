import type { PageData, PageService } from '../src/emit/report/data.ts';
import { readBrief } from '../src/emit/report/brief-services.ts';
import { readServiceLine } from '../src/emit/report/service-line.ts';

/** A Service that is read when it is needed: most stay lines. */
export interface IndexedService {
  readonly name: string;
  /** In lower case, with addresses. */
  readonly text: string;
  /** Whether anything happens to it. */
  readonly isChanged: boolean;
  read(): PageService;
}

/** All Services of the page, the changed ones first. */
export function readServices({ services, brief, others }: PageData): readonly IndexedService[] {
  return [...services.map(changed), ...brief.map((line) => changed(readBrief(line))), ...others.map(unchanged)];
}

function changed(service: PageService): IndexedService {
  const { name, frontends, endpoints } = service;
  const texts = [name, ...frontends.map(({ text }) => text), ...endpoints.map(({ text }) => text)];
  return { name, text: texts.join(' ').toLowerCase(), isChanged: true, read: () => service };
}

function unchanged(line: string): IndexedService {
  let known: PageService | undefined;
  return {
    name: line.slice(0, line.indexOf('\t')),
    text: line.toLowerCase(),
    isChanged: false,
    read: () => (known ??= readServiceLine(line)),
  };
}
