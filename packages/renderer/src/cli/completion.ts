/** The shells that `sluice completion` knows. */
export const shells = ['bash', 'zsh', 'fish'] as const;
export type Shell = (typeof shells)[number];

/** After the candidates: the shell is to complete names of files. No candidate begins with a colon. */
export const filesMark = ':files';

// The scripts are thin: each asks `sluice complete` with the words so far and gets lines `value<TAB>description`. So all
// shells know the same things, and a script once installed knows the commands of later versions.

const bash = `# bash completion for sluice
_sluice() {
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
complete -F _sluice sluice
`;

const zsh = `#compdef sluice
_sluice() {
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
if [[ \${funcstack[1]} == _sluice ]]; then
  _sluice "$@"
else
  compdef _sluice sluice
fi
`;

const fish = `# fish completion for sluice
function __sluice_complete
    set -l words (commandline -opc) (commandline -ct)
    for line in ($words[1] complete -- $words[2..-1] 2>/dev/null)
        if test "$line" = '${filesMark}'
            __fish_complete_path (commandline -ct)
        else
            echo $line
        end
    end
end
complete -c sluice -f -a '(__sluice_complete)'
`;

/** The script that a shell reads to complete the words of `sluice`. */
export const completionScripts: Readonly<Record<Shell, string>> = { bash, zsh, fish };
