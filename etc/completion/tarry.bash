# SPDX-License-Identifier: BSD-2-Clause
# bash completion for tarry. It reads the commands and options in `tarry help`:
#   tarry NAME SUBCOMMAND ARGUMENT   text
#   --option VALUE   text

# _tarry_words PATTERN: what \(...\) of it matches in the lines of $help.
_tarry_words()
{
    sed -n "s/^  $1.*/\1/p" <<< "$help" | uniq
}

_tarry()
{
    local tarry=${COMP_WORDS[0]} cur=${COMP_WORDS[COMP_CWORD]} previous=${COMP_WORDS[COMP_CWORD-1]}
    local first=2 help words command options arguments # first: the place of the first argument
    COMPREPLY=()
    if ((COMP_CWORD == 1)); then
        help=$("$tarry" help 2>/dev/null) || return 0
        mapfile -t COMPREPLY < <(compgen -W "$(_tarry_words 'tarry \([a-z-]*\)')" -- "$cur")
        return
    fi
    command=${COMP_WORDS[1]}
    help=$("$tarry" help "$command" 2>/dev/null) || return 0
    words=$(_tarry_words "tarry $command \([a-z]\{1,\}\) ")
    if [[ $words && $COMP_CWORD == 2 ]]; then
        mapfile -t COMPREPLY < <(compgen -W "$words" -- "$cur")
        return
    elif [[ $words ]]; then
        command+=" ${COMP_WORDS[2]}"
        help=$("$tarry" help "${COMP_WORDS[@]:1:2}" 2>/dev/null) || return 0
        first=3
    fi
    options=$(_tarry_words '\(--[a-z-]\{1,\}\)')
    arguments=$(_tarry_words "tarry $command \([][A-Z. ]*\)")
    if [[ $cur == -* ]]; then
        mapfile -t COMPREPLY < <(compgen -W "$options" -- "$cur")
    elif [[ $arguments == *FILE* ]] || grep -q -e "^  $previous FILE" <<< "$help"; then
        mapfile -t COMPREPLY < <(compgen -f -- "$cur")
    elif [[ $COMP_CWORD == "$first" && $arguments =~ ^\[?ROUTE ]]; then
        # The routes of the daemon, if one answers.
        words=$("$tarry" routes --json 2>/dev/null | sed -n 's/^{"name": *"\([A-Za-z0-9_.-]*\)".*/\1/p')
        mapfile -t COMPREPLY < <(compgen -W "$words" -- "$cur")
    fi
}
complete -F _tarry tarry
