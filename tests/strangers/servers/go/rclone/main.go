// rclone with what `rclone serve nfs` of a directory needs, and no other storage: the same code,
// built in a fifth of the time.
package main

import (
	_ "github.com/rclone/rclone/backend/local"
	"github.com/rclone/rclone/cmd"
	_ "github.com/rclone/rclone/cmd/serve/nfs"
)

func main() { cmd.Main() }
