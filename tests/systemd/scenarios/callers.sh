# shellcheck shell=bash
# The rights of users: group ganglion reads and asks, group ganglion-admin and root also operate, others have no access.
start
refused='(Access denied|AccessDenied|Sender is not authorized|Call failed: Rejected)'
for user in root member admin both; do
    matches "the answer to $user" "$(ask $user 'Name a colour.')" '^sa\{sv\} '
done
for user in nobody stranger; do
    said=$(ask $user 'Name a colour.' 2>&1) && fail "$user was answered"
    matches "what $user reads" "$said" "$refused"
done
for user in root member admin both; do
    matches "what $user sees of Manager" \
        "$(as $user busctl get-property $name $path $name.Manager State Version QueueLength 2>&1 | tr '\n' ' ')" '^s "ready" s "[0-9.]+" u 0'
    matches "what $user sees of Diagnostics" \
        "$(as $user busctl get-property $name $path $name.Diagnostics GraphState 2>&1)" '^s '
done
for user in nobody stranger; do
    said=$(as $user busctl get-property $name $path $name.Manager State 2>&1) && fail "$user sees the state"
    matches "what $user reads of the state" "$said" "$refused"
    said=$(as $user busctl introspect $name $path 2>&1) && fail "$user sees the interfaces"
    matches "what $user reads of the interfaces" "$said" "$refused"
done
for method in Diagnostics.ResetGraph Diagnostics.DumpGraph Manager.Reload; do
    operate=(busctl call $name $path "$name.${method%.*}" "${method#*.}")
    for user in member stranger nobody; do
        said=$(as $user "${operate[@]}" 2>&1) && fail "$user may call $method"
        matches "what $user reads of $method" "$said" "$refused"
    done
    for user in root admin both; do
        said=$(as $user "${operate[@]}" 2>&1) || true
        ! grep -qE "$refused" <<<"$said" || fail "$user may not call $method: $said"
    done
done

# A session answers only the connection that opened it, and ends with it: busctl disconnects after each call.
session=$(as member busctl call $name $path $name.Manager OpenSession 'a{sv}' 0 | tr -d '"' | cut -d ' ' -f 2)
said=$(as member busctl call $name "$session" $name.Session History 2>&1) && fail 'the session outlived its owner'
matches 'what another reads' "$said" 'is not an object of this connection'
