#!/bin/bash
# namespaces.sh up|down|heal NAME, namespaces.sh cut NAME near|far|both
#
# Three network namespaces for a chaos test: NAME-near and NAME-far, which reach each other through
# NAME-router only. `cut` makes the router drop, without a word, what comes from one side or both. Needs
# root and ip; exits 77 where namespaces cannot be made.
set -eu
name=$2
near=10.93.1 far=10.93.2

place() {
    echo "$name-$1"
}

down() {
    for side in near router far; do
        ip netns del "$(place $side)" 2>/dev/null || true
    done
}

# join SIDE NET: a link between that side and the router.
join() {
    ip link add "cc$1" netns "$(place "$1")" type veth peer name "cr$1" netns "$(place router)"
    ip -n "$(place "$1")" addr add "$2.2/24" dev "cc$1"
    ip -n "$(place router)" addr add "$2.1/24" dev "cr$1"
    ip -n "$(place "$1")" link set "cc$1" up
    ip -n "$(place router)" link set "cr$1" up
    ip -n "$(place "$1")" route add default via "$2.1"
}

up() {
    for side in near router far; do
        ip netns add "$(place $side)" 2>/dev/null || exit 77
        ip -n "$(place $side)" link set lo up
    done
    join near $near
    join far $far
    ip netns exec "$(place router)" sh -c 'echo 1 >/proc/sys/net/ipv4/ip_forward'
}

# drop FROM TO: the rule stands before all others.
drop() {
    ip -n "$(place router)" rule add from "$1.0/24" to "$2.0/24" blackhole priority 1
}

# What tests left behind whose process, the last part of NAME, is gone.
sweep() {
    local left
    for left in $(ip netns list | sed -n 's/^\(cadre-chaos-[0-9]*\)-[a-z]*.*/\1/p' | sort -u); do
        [ -d "/proc/${left##*-}" ] || name=$left down
    done
}

case $1 in
up)
    command -v ip >/dev/null || exit 77
    sweep
    trap down ERR
    up
    ;;
down) down ;;
cut)
    [ "$3" = far ] || drop $near $far
    [ "$3" = near ] || drop $far $near
    ;;
heal)
    while ip -n "$(place router)" rule del priority 1 2>/dev/null; do :; done
    ;;
esac
