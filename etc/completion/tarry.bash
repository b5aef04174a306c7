# SPDX-License-Identifier: BSD-2-Clause
# bash completion for tarry. Made by: tarry doc tarry.bash

_tarry()
{
    local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD-1]}
    local command=${COMP_WORDS[1]} words='' places='' first=2 two=''
    COMPREPLY=()
    if [ "$COMP_CWORD" -eq 1 ]; then
        mapfile -t COMPREPLY < <(compgen -W ' run check options status ready routes reload jobs dead pause resume drain tap explain send targets go-on kafka audit import version help' -- "$cur")
        return
    fi
    case $command in
        jobs) two=' list show cancel now move' ;;
        dead) two=' list show replay drop' ;;
        kafka) two=' rewind' ;;
    esac
    if [ -n "$two" ]; then
        if [ "$COMP_CWORD" -eq 2 ]; then
            mapfile -t COMPREPLY < <(compgen -W "$two" -- "$cur")
            return
        fi
        command="$command ${COMP_WORDS[2]}" first=3
    fi
    case $command in
        'run') words='--help ' places='FILE' ;;
        'check') words='--connect --json --table --help ' places='FILE' ;;
        'options') words='--help ' places='[FILE]' ;;
        'status') words='--json --table --url --token-file --ca-file --cert-file --key-file --help ' places='' ;;
        'ready') words='--url --token-file --ca-file --cert-file --key-file --help ' places='' ;;
        'routes') words='--json --table --url --token-file --ca-file --cert-file --key-file --help ' places='[ROUTE]' ;;
        'reload') words='--json --table --url --token-file --ca-file --cert-file --key-file --help ' places='' ;;
        'jobs list') words='--state --queue --from --to --id-prefix --max --all --cursor --json --table --url --token-file --ca-file --cert-file --key-file --help ' places='ROUTE' ;;
        'jobs show') words='--json --table --url --token-file --ca-file --cert-file --key-file --help ' places='ROUTE ID' ;;
        'jobs cancel') words='--json --table --url --token-file --ca-file --cert-file --key-file --help ' places='ROUTE ID' ;;
        'jobs now') words='--queue --json --table --url --token-file --ca-file --cert-file --key-file --help ' places='ROUTE ID' ;;
        'jobs move') words='--queue --after --at --json --table --url --token-file --ca-file --cert-file --key-file --help ' places='ROUTE ID' ;;
        'dead list') words='--reason --from --to --id-prefix --max --all --cursor --json --table --url --token-file --ca-file --cert-file --key-file --help ' places='ROUTE' ;;
        'dead show') words='--json --table --url --token-file --ca-file --cert-file --key-file --help ' places='ROUTE ID' ;;
        'dead replay') words='--reason --from --to --id-prefix --max --all --cursor --rate --dry-run --json --table --url --token-file --ca-file --cert-file --key-file --help ' places='ROUTE [ID]' ;;
        'dead drop') words='--reason --from --to --id-prefix --max --all --cursor --dry-run --json --table --url --token-file --ca-file --cert-file --key-file --help ' places='ROUTE [ID]' ;;
        'pause') words='--json --table --url --token-file --ca-file --cert-file --key-file --help ' places='ROUTE ...' ;;
        'resume') words='--json --table --url --token-file --ca-file --cert-file --key-file --help ' places='ROUTE ...' ;;
        'drain') words='--wait --json --table --url --token-file --ca-file --cert-file --key-file --help ' places='ROUTE ...' ;;
        'tap') words='--max --sample --payload --json --table --url --token-file --ca-file --cert-file --key-file --help ' places='ROUTE' ;;
        'explain') words='--after --at --id --key --header --topic --source --json --table --url --token-file --ca-file --cert-file --key-file --help ' places='ROUTE [PAYLOAD]' ;;
        'send') words='--after --at --id --key --header --json --table --url --token-file --ca-file --cert-file --key-file --help ' places='ROUTE [PAYLOAD]' ;;
        'targets') words='--json --table --url --token-file --ca-file --cert-file --key-file --help ' places='ROUTE' ;;
        'go-on') words='--json --table --url --token-file --ca-file --cert-file --key-file --help ' places='ROUTE TARGET' ;;
        'kafka rewind') words='--to --dry-run --json --table --url --token-file --ca-file --cert-file --key-file --help ' places='ROUTE' ;;
        'audit') words='--route --repair --json --help ' places='FILE' ;;
        'import') words='--dry-run --source --conf --delete --with --help ' places='TYPE REDIS-URL' ;;
        'version') words='--help ' places='' ;;
        'help') words='--help ' places='[COMMAND]' ;;
        *) return ;;
    esac
    case $prev in
        --conf | --token-file | --ca-file | --cert-file | --key-file) mapfile -t COMPREPLY < <(compgen -f -- "$cur"); return ;;
    esac
    if [[ $cur == -* ]]; then
        mapfile -t COMPREPLY < <(compgen -W "$words" -- "$cur")
    elif [[ $places == *FILE* ]]; then
        mapfile -t COMPREPLY < <(compgen -f -- "$cur")
    elif [[ $places == ROUTE* || $places == '[ROUTE]' ]] &&
        [ "$COMP_CWORD" -eq "$first" ]; then
        # The routes of the daemon, if one answers.
        mapfile -t COMPREPLY < <(compgen -W "$(tarry routes --json 2>/dev/null |
            sed -n 's/^{"name": *"\([A-Za-z0-9_.-]*\)".*/\1/p')" -- "$cur")
    fi
}
complete -F _tarry tarry
