/** The shells with a completion script. */
export const shells = ['bash', 'zsh', 'fish'] as const;
export type Shell = (typeof shells)[number];

/** A last line that makes the shell complete file names. No candidate begins with a colon. */
export const filesMark = ':files';

// The scripts are thin: each calls `PROGRAM complete` with the words so far and gets lines `value<TAB>description`. So all
// shells have the same completions, and an installed script works with later versions.

const bash = (name: string): string => `# bash completion for ${name}
_${name}() {
  local line
  COMPREPLY=()
  while IFS= read -r line; do
    if [ "$line" = '${filesMark}' ]; then
      compopt -o default
    else
      COMPREPLY+=("\${line%%$'\\t'*}")
    fi
  done < <("\${COMP_WORDS[0]}" complete -- "\${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null)
}
complete -F _${name} ${name}
`;

const zsh = (name: string): string => `#compdef ${name}
_${name}() {
  local line
  local -a found shown
  for line in "\${(@f)$("\${words[1]}" complete -- "\${(@)words[2,CURRENT]}" 2>/dev/null)}"; do
    if [[ $line == '${filesMark}' ]]; then
      _files
    elif [[ -n $line ]]; then
      found+=("\${line%%$'\\t'*}")
      shown+=("\${line/$'\\t'/  -- }")
    fi
  done
  (( \${#found} )) && compadd -l -d shown -a found
}
if [[ \${funcstack[1]} == _${name} ]]; then
  _${name} "$@"
else
  compdef _${name} ${name}
fi
`;

const fish = (name: string): string => `# fish completion for ${name}
function __${name}_complete
    set -l words (commandline -opc) (commandline -ct)
    for line in ($words[1] complete -- $words[2..-1] 2>/dev/null)
        if test "$line" = '${filesMark}'
            __fish_complete_path (commandline -ct)
        else
            echo $line
        end
    end
end
complete -c ${name} -f -a '(__${name}_complete)'
`;

const scripts: Readonly<Record<Shell, (name: string) => string>> = { bash, zsh, fish };

/** The completion script of a program for a shell. @param name of the program: letters only */
export function completionScript(name: string, shell: Shell): string {
  return scripts[shell](name);
}
