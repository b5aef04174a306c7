# SPDX-License-Identifier: BSD-2-Clause
# fish completion for tarry. `tarry complete WORD ...` prints a line per completion: the word, a tab, its help.
function __tarry_complete
    set -l words (commandline -opc)
    set -l last (commandline -ct)
    set -l lines ($words[1] complete $words[2..-1] "$last" 2>/dev/null)
    if test "$lines[1]" = :files
        __fish_complete_path "$last"
    else
        printf '%s\n' $lines
    end
end
complete -c tarry -f -a '(__tarry_complete)'
