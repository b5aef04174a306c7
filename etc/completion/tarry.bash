# SPDX-License-Identifier: BSD-2-Clause
# bash completion for tarry, which knows its commands and options itself.

_tarry()
{
    local tarry=${COMP_WORDS[0]} cur=${COMP_WORDS[COMP_CWORD]} kind words
    read -r kind words < <("$tarry" doc complete -- "${COMP_WORDS[@]:1:COMP_CWORD-1}" 2>/dev/null; echo)
    COMPREPLY=()
    case $kind:$cur in
        *:-* | WORDS:*) ;;
        FILE:*) mapfile -t COMPREPLY < <(compgen -f -- "$cur"); return ;;
        # The routes of the daemon, if one answers.
        ROUTE:*) words=$("$tarry" routes --json 2>/dev/null | sed -n 's/^{"name": *"\([A-Za-z0-9_.-]*\)".*/\1/p') ;;
        *) return ;;
    esac
    mapfile -t COMPREPLY < <(compgen -W "$words" -- "$cur")
}
complete -F _tarry tarry
