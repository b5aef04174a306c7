# SPDX-License-Identifier: BSD-2-Clause
# bash completion for tarry. `tarry complete WORD ...` prints a line per completion: the word, a tab, its help.
_tarry()
{
    local lines
    mapfile -t lines < <("${COMP_WORDS[0]}" complete "${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null)
    if [[ ${lines[0]-} == :files ]]; then
        compopt -o filenames 2>/dev/null || :
        mapfile -t COMPREPLY < <(compgen -f -- "${COMP_WORDS[COMP_CWORD]}")
    else
        COMPREPLY=("${lines[@]%%$'\t'*}")
    fi
}
complete -F _tarry tarry
