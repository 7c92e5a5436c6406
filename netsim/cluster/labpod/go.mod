module xylem.dev/netsim/labpod

go 1.24
