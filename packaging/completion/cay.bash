# Completion of cay for bash. The program itself knows the candidates.

_cay() {
    local rest=${COMP_LINE:0:COMP_POINT} words=() trimmed piece candidate i

    # bash parts words at = : and @, too: put together what no blank is between.
    for ((i = 0; i <= COMP_CWORD; i++)); do
        trimmed=${rest#"${rest%%[![:space:]]*}"}
        piece=${COMP_WORDS[i]}
        ((i < COMP_CWORD)) || piece=$trimmed
        if [[ ${#words[@]} -eq 0 || $trimmed != "$rest" ]]; then
            words+=("$piece")
        else
            words[-1]+=$piece
        fi
        rest=${trimmed#"$piece"}
    done

    # What readline will replace: the last piece, which is empty right behind = and :.
    local tail=$2 lead
    [[ $tail != [=:] ]] || tail=
    lead=${words[-1]%"$tail"}

    COMPREPLY=()
    while IFS=$'\t' read -r candidate _; do
        case $candidate in
        :files)
            compopt -o filenames 2>/dev/null
            mapfile -t COMPREPLY < <(compgen -f -- "$tail")
            ;;
        :commands)
            mapfile -t COMPREPLY < <(compgen -c -- "$tail")
            ;;
        *)
            COMPREPLY+=("${candidate#"$lead"}")
            ;;
        esac
    done < <("${1/#\~\//$HOME/}" __complete "${words[@]:1}" 2>/dev/null)
}

complete -F _cay cay
