#compdef tarry
# SPDX-License-Identifier: BSD-2-Clause
# zsh completion for tarry. `tarry complete WORD ...` prints a line per completion: the word, a tab, its help.
local -a lines
lines=("${(@f)$("${(Q)words[1]}" complete "${(@Q)words[2,CURRENT]}" 2>/dev/null)}")
if [[ $lines[1] == :files ]]; then
    _files
elif [[ -n $lines[1] ]]; then
    lines=("${(@)lines/$'\t'/:}")
    _describe tarry lines
fi
