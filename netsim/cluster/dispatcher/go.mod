module xylem.dev/netsim/cluster/dispatcher

go 1.26
