module images-go

go 1.26

require (
	github.com/diskfs/go-diskfs v1.9.4
	github.com/kdomanski/iso9660 v0.4.0
)

require (
	github.com/djherbis/times v1.6.0 // indirect
	golang.org/x/sys v0.43.0 // indirect
)
