module sluice.dev/bench/open

go 1.24
