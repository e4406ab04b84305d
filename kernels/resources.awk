# Prints the report of ptxas on each kernel of sm_87 in one line: registers, shared memory and spills.
BEGIN { printf "%-28s%10s%14s%14s\n", "kernel on sm_87", "registers", "shared bytes", "spilled bytes" }
/Compiling entry function/ { split($0, quoted, "'"); name = quoted[2] }
/bytes spill/ {
    spilled = $0
    sub(/.*stack frame, /, "", spilled)
    split(spilled, word, " ")
    spilled = word[1] + word[5]
}
/Used [0-9]+ registers/ {
    match($0, /[0-9]+ registers/)
    registers = substr($0, RSTART) + 0
    shared = match($0, /[0-9]+ bytes smem/) ? substr($0, RSTART) + 0 : 0
    printf "%-28s%10d%14d%14d\n", name, registers, shared, spilled
}
