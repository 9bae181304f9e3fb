# Theory of operation: a bash that remembers, for one context.
#
# Started by `bash -c` with the control channel (a stream socket) as fd 0, this text becomes an interactive bash with
# nothing to read, by exec. Only an interactive one goes on after what ends a script: an unset variable with `set -u`,
# ${x:?}, a failed exec, SIGINT. Whatever leads it back to its prompt makes it run PROMPT_COMMAND, which is our loop:
# it reads a cell, evals it at the top level (in a function, `declare` would make local variables), and says done.
#
# The channel, stdout and stderr are fds 60 to 62, close-on-exec: no program inherits them. The loop's own 0 to 2 are
# /dev/null, so what it does under `set -x` or a DEBUG trap is not seen. A cell's are redirections of its eval, so that
# they are put back whatever the cell has made of them.
#
# What really ends the shell (`set -e`, `unset -f exit; exit`) runs the EXIT trap: another bash takes the place, by
# exec, and gets all that bash can say of itself. Only jobs are forgotten, not ended.

if [[ $- != *i* ]]; then
    exec 50<&0 51>&1 52>&2 </dev/null >/dev/null 2>&1
    __cay_text=$BASH_EXECUTION_STRING PROMPT_COMMAND='eval "$__cay_text"' \
        exec "$BASH" --noprofile --norc --noediting -i
fi

# Bash has no word for close-on-exec, but marks so what it keeps while a redirection is in force, at the first numbers
# from 10 on that are free; and a copy of what is marked is marked.
__cay_free=()
for ((__cay_fd = 10; ${#__cay_free[@]} < 3; __cay_fd++)); do
    [[ -e /proc/self/fd/$__cay_fd ]] || __cay_free+=("$__cay_fd")
done
builtin eval 'exec 60<&"${__cay_free[0]}" 61>&"${__cay_free[1]}" 62>&"${__cay_free[2]}"' 50<&- 51>&- 52>&-
exec 50<&- 51>&- 52>&-
unset __cay_free __cay_fd

set +o history +o histexpand
shopt -s execfail
shopt -u checkwinsize
unset HISTFILE MAILCHECK PS1 PS2
export -n __cay_text PROMPT_COMMAND
__cay_last=0

# Lines are counted from 0 there, and should be from 1.
__cay_loop='__cay_prompt; while __cay_next; do __cay_args=("$@"); __cay_status; builtin eval "
$__cay_code" </dev/null >&61 2>&62; __cay_done "$?"; done; __cay_break'

# Out of everything, to the prompt, and so to the loop.
__cay_jump() {
    PROMPT_COMMAND=$__cay_loop
    # It would end the shell at its prompt, or our reading.
    unset TMOUT
    builtin trap - INT
    builtin kill -INT "$$"
}

# At the prompt again: a cell that runs was left by an interrupt, or by exit below.
__cay_prompt() {
    builtin trap '' INT
    [[ -z ${__cay_running-} ]] || __cay_done "${__cay_exit:-130}"
}

# The next cell into __cay_code; false where there will be none.
__cay_next() {
    # A `continue` too many.
    [[ -z ${__cay_running-} ]] || __cay_done 0
    PROMPT_COMMAND=$__cay_loop
    unset TMOUT
    IFS='' builtin read -r -d '' -u 60 __cay_code || return 1
    __cay_running=1 __cay_exit=''
    # Not what an earlier cell has set: an interrupt has to end this one.
    builtin trap - INT
    return 0
}

# Makes $? what the last cell has left. Not where that would end the shell.
__cay_status() {
    [[ $- == *e* ]] || return "$__cay_last"
}

__cay_done() {
    builtin trap '' INT
    __cay_running='' __cay_last=$1
    # Has those forgotten that are done, as each prompt does.
    jobs >/dev/null
    builtin printf '{"type":"done","exit_code":%d,"exception":null}\0' "$1" >&60
}

# The loop has ended: no more cells; or a cell had a `break` too many.
__cay_break() {
    if [[ -n ${__cay_running-} ]]; then
        __cay_done 0
        __cay_jump
    fi
    builtin exit 0
}

exit() {
    local status=${1-$?}
    if ((BASH_SUBSHELL > 0)) || [[ -z ${__cay_running-} || $status == *[!0-9]* ]]; then
        builtin exit "$@"
    fi
    __cay_exit=$((10#$status & 255))
    __cay_jump
}

# All that another bash needs to be what this one is, as commands.
__cay_state() {
    declare -p
    declare -f
    alias -p
    umask -p
    shopt -p
    builtin printf '%s\nset --' "$__cay_options"
    # At an exit they may be those of a function.
    ((${#__cay_args[@]} == 0)) || builtin printf ' %q' "${__cay_args[@]}"
    builtin printf '\n'
}

__cay_again() {
    [[ -n ${__cay_running-} ]] || return 0
    __cay_exit=$1
    # Before anything is changed, and where bash still knows: another process has no traps, this one no -e.
    __cay_options=$(builtin trap -p; set +o)
    [[ $- != *e* ]] || __cay_options+=$'\nset -e'
    set +eux +o posix
    # A signal that is ignored when a bash starts is so for good.
    builtin trap - INT
    exec 40< <(__cay_state) <&60 >&61 2>&62
    __cay_saved=40 exec "$BASH" -c "$__cay_text"
}

if [[ -n ${__cay_saved-} ]]; then
    source /dev/fd/40
    exec 40<&-
    unset __cay_saved
else
    builtin printf '{"type":"ready","pid":%d}\0' "$$" >&60
fi
builtin trap '__cay_again "$?"' EXIT
__cay_jump
