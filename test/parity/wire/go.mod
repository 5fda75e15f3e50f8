module sluice.dev/parity/wire

go 1.24
