import type { Command, Option } from 'commander';
import { afterHelp, argumentNote, fullName, groupOf, leaves, optionNote, usageOf } from '../command-tree.ts';
import { cell, prose, slug } from './markdown.ts';

/**
 * The page of a program: every command with what its help says.
 * @param program every command with its options, as the program itself builds it
 * @param exits by the words of a command, the exit codes that it has beside 0 and 2
 */
export function commandPage(program: Command, exits: Readonly<Record<string, string>>): string {
  const commands = leaves(program);
  const groups = [...Map.groupBy(commands, groupOf)].map(
    ([group, ofGroup]) => `| **${group}** | |\n${ofGroup.map(rowOf).join('')}`,
  );
  return `# ${program.name()}

${prose(program.description())}

| command | does |
|---|---|
${groups.join('')}
Options of all commands:

${optionTable(program.options)}
${commands.map((command) => commandPart(command, exits)).join('\n')}`;
}

function rowOf(command: Command): string {
  const name = fullName(command);
  return `| [\`${name}\`](#${slug(name)}) | ${cell(firstSentence(command.description()))} |\n`;
}

function commandPart(command: Command, exits: Readonly<Record<string, string>>): string {
  const name = fullName(command);
  const { before, examples } = afterHelp(command);
  const told = /Exit code/.test(command.description() + before);
  const further = told ? undefined : exits[name.split(' ').slice(1).join(' ')];
  const parts = [
    `## ${name}`,
    prose(command.description()),
    block([`${name} ${usageOf(command).join(' ')}`]),
    argumentList(command),
    optionTable(command.options.filter((one) => !one.hidden)),
    prose(before),
    further === undefined ? '' : `Exit codes beside 0 and 2: ${prose(further)}.`,
    examples.length === 0 ? '' : `Examples:\n\n${block(examples)}`,
  ];
  return `${parts
    .map((part) => part.trimEnd())
    .filter((part) => part !== '')
    .join('\n\n')}\n`;
}

function argumentList(command: Command): string {
  return command.registeredArguments.map((one) => `- \`${one.name()}\`: ${prose(argumentNote(one))}\n`).join('');
}

function optionTable(options: readonly Option[]): string {
  if (options.length === 0) return '';
  const rows = options.map((one) => `| ${cell(`\`${one.flags}\``)} | ${cell(optionNote(one))} |\n`);
  return `| option | means |\n|---|---|\n${rows.join('')}`;
}

const block = (lines: readonly string[]): string => `\`\`\`sh\n${lines.join('\n')}\n\`\`\``;

const firstSentence = (text: string): string => /^[^]*?[.:](?=\s|$)/.exec(text)?.[0].replace(/[.:]$/, '') ?? text;
