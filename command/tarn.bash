# SPDX-License-Identifier: Apache-2.0
# Completion of the command tarn for bash.
_tarn() {
    local word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD - 1]} options
    COMPREPLY=()
    if [ "$COMP_CWORD" -eq 1 ]; then
        COMPREPLY=($(compgen -W 'list dump leaks diff top convert view info record help --help --version' -- "$word"))
        return
    fi
    case $before in
    -o | --output)
        COMPREPLY=($(compgen -f -- "$word"))
        return
        ;;
    --debug)
        COMPREPLY=($(compgen -d -- "$word"))
        return
        ;;
    --to)
        COMPREPLY=($(compgen -W 'chrome perfetto pprof pytorch sqlite' -- "$word"))
        return
        ;;
    --stacks)
        COMPREPLY=($(compgen -W 'none caller frames unwind' -- "$word"))
        return
        ;;
    --events | --pool | --top | --block | --log | --sample) return ;;
    esac
    case ${COMP_WORDS[1]} in
    list | info) options='--json --output' ;;
    dump) options='--json --output --events --pool --block --top --debug' ;;
    top) options='--top --debug' ;;
    view) options='--output --events --debug' ;;
    convert) options='--to --output --debug' ;;
    leaks | diff) options='--json --output --pool --top --debug' ;;
    record) options='--output --log --stacks --sample' ;;
    *) return ;;
    esac
    case $word in
    -*) COMPREPLY=($(compgen -W "$options" -- "$word")) ;;
    *)
        [[ ${COMP_WORDS[1]} != list && ${COMP_WORDS[1]} != info ]] || return
        if [ "${COMP_WORDS[1]}" = record ]; then
            COMPREPLY=($(compgen -c -- "$word"))
            return
        fi
        COMPREPLY=($(compgen -W "$("${COMP_WORDS[0]}" list 2>/dev/null | awk 'NR > 1 { print $1 }')" \
            -- "$word") $(compgen -f -- "$word"))
        ;;
    esac
}
complete -o filenames -F _tarn tarn
