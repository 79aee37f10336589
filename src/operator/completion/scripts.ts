/** The words that can follow a command or option, by its full name such as `keys list --plan`. */
export type Words = ReadonlyMap<string, readonly string[]>;

/**
 * Returns the completion script for bash. The script also calls npm's own completion, if installed.
 */
export function bashScript(words: Words): string {
  return `_store_orders_words() {
  case "$1" in
${table(words, (path, list) => `    '${path}') echo '${list}' ;;`)}
  esac
}
_store_orders_npm="$(complete -p npm 2>/dev/null | sed -n 's/.* -F \\([^ ]*\\) .*/\\1/p')"
[ "$_store_orders_npm" = _store_orders ] && _store_orders_npm=
_store_orders() {
  local current="\${COMP_WORDS[COMP_CWORD]}" place= option= list= is_ours= i word
  for ((i = 1; i < COMP_CWORD; i++)); do
    word="\${COMP_WORDS[i]}" option=
    case "$word" in
      --) is_ours=1 ;;
      -*) [ -n "$is_ours" ] && option="$word" ;;
      *)
        if [ -z "$is_ours" ]; then place="$word"
        elif [ -n "$(_store_orders_words "$place $word")" ]; then place="$place $word"
        fi ;;
    esac
  done
  if [ -z "$is_ours" ] || [ ! -f src/operator/main.ts ]; then
    [ -n "$_store_orders_npm" ] && "$_store_orders_npm" "$@"
    return
  fi
  [ -n "$option" ] && list="$(_store_orders_words "$place $option")"
  [ -n "$list" ] || list="$(_store_orders_words "$place")"
  # If no word matches, the shell completes the names of files.
  [[ "$current" == -* ]] || list="$(printf %s "$list" | tr ' ' '\\n' | grep -v '^-')"
  COMPREPLY=($(compgen -W "$list" -- "$current"))
}
complete -o default -F _store_orders npm
`;
}

/** Returns the completion script for zsh, which runs the script for bash in zsh. */
export function zshScript(words: Words): string {
  return `autoload -Uz compinit bashcompinit && compinit && bashcompinit
${bashScript(words)}`;
}

/** Returns the completion script for fish. */
export function fishScript(words: Words): string {
  return `function __store_orders_words
  switch "$argv[1]"
${table(words, (path, list) => `    case '${path}'; string split ' ' -- '${list}'`)}
  end
end
function __store_orders
  set -l place; set -l option; set -l is_ours
  for word in (commandline -opc)[2..]
    set option
    if test "$word" = --; set is_ours 1
    else if string match -q -- '-*' $word; set option $word
    else if test -z "$is_ours"; set place $word
    else if test -n "$(__store_orders_words "$place $word")"; set place "$place $word"
    end
  end
  test -n "$is_ours"; and test -f src/operator/main.ts; or return
  set -l list (__store_orders_words "$place $option")
  test -n "$list"; or set list (__store_orders_words "$place")
  printf "%s\\n" $list
end
complete -c npm -a '(__store_orders)'
`;
}

function table(words: Words, line: (path: string, list: string) => string): string {
  return [...words].map(([path, list]) => line(path, list.join(" "))).join("\n");
}
