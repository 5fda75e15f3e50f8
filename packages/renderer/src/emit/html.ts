import { hash } from 'node:crypto';

/** The parts of a page. The body is mark-up; style and script contain no input. */
interface PageParts {
  readonly title: string;
  readonly body: string;
  readonly style: string;
  readonly script: string;
}

/**
 * A self-contained page that needs no network. Its Content-Security-Policy allows its one script and its one style, by their hashes, and
 * nothing else.
 */
export function htmlPage({ title, body, style, script }: PageParts): string {
  const policy = [
    "default-src 'none'",
    `script-src '${digestOf(script)}'`,
    `style-src '${digestOf(style)}'`,
    "base-uri 'none'",
    "form-action 'none'",
  ].join('; ');
  return [
    '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n',
    `<meta http-equiv="Content-Security-Policy" content="${policy}">\n`,
    '<meta name="viewport" content="width=device-width, initial-scale=1">\n',
    '<meta name="referrer" content="no-referrer">\n<meta name="robots" content="noindex">\n',
    `<title>${html(title)}</title>\n`,
    `<style>${style}</style>\n</head>\n<body>\n`,
    body,
    `<script>${script}</script>\n</body>\n</html>\n`,
  ].join('');
}

const digestOf = (text: string): string => `sha256-${hash('sha256', text, 'base64')}`;

const entities: Readonly<Record<string, string>> = {
  '&': '&amp;',
  '<': '&lt;',
  '>': '&gt;',
  '"': '&quot;',
  "'": '&#39;',
};

/** Escapes a text for HTML elements and attributes. */
export function html(text: string): string {
  return text.replaceAll(/[&<>"']/g, (character) => entities[character] ?? character);
}

/** A text as the beginning of a sentence. */
export const capital = (text: string): string => `${text.slice(0, 1).toUpperCase()}${text.slice(1)}`;
