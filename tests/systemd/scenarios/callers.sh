# shellcheck shell=bash
# Who may do what: root everything, group ganglion asks, everyone may look.
start
refused='(Access denied|AccessDenied|Sender is not authorized|Call failed: Rejected)'
for user in root member; do
    matches "the answer to $user" "$(ask $user 'Name a colour.')" '^sa\{sv\} '
done
for user in nobody stranger; do
    said=$(ask $user 'Name a colour.' 2>&1) && fail "$user was answered"
    matches "what $user reads" "$said" "$refused"
done
for user in root member stranger nobody; do
    matches "what $user sees of Manager" \
        "$(as $user busctl get-property $name $path $name.Manager State Version QueueLength 2>&1 | tr '\n' ' ')" '^s "ready" s "[0-9.]+" u 0'
    matches "what $user sees of Diagnostics" \
        "$(as $user busctl get-property $name $path $name.Diagnostics GraphState 2>&1)" '^s '
done
said=$(as nobody busctl call $name $path $name.Diagnostics ResetGraph 2>&1) && fail 'nobody reset the graph'
matches 'what nobody reads' "$said" "$refused"

# A session answers only the connection that made it: busctl left when it had it, and it went with it.
session=$(as member busctl call $name $path $name.Manager OpenSession 'a{sv}' 0 | tr -d '"' | cut -d ' ' -f 2)
said=$(as member busctl call $name "$session" $name.Session History 2>&1) && fail 'the session outlived its owner'
matches 'what another reads' "$said" '(Unknown|NotOwner|No such|does not exist)'
