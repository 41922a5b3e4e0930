package agent

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"vouch/agent/internal/config"
	"vouch/routers"
	"vouch/routers/detect"
)

// files says what keeps the user that vouch runs as from the files that it is to write. The driver has looked
// at them as the user who runs this command, who mostly is another one.
func files(rc config.Router, who detect.User) []routers.Finding {
	if int(who.UID) == os.Geteuid() {
		return nil
	}
	var found []routers.Finding
	for _, path := range []string{rc.Include, rc.Include6} {
		if path == "" {
			continue
		}
		real := path
		if target, err := filepath.EvalSymlinks(path); err == nil {
			real = target
		}
		if closed := detect.FileBarriers(real, who); len(closed) > 0 {
			found = append(found, fileFinding(path, filepath.Dir(real), closed, who))
		}
	}
	return found
}

func fileFinding(path, dir string, closed []detect.Barrier, who detect.User) routers.Finding {
	texts := make([]string, len(closed))
	for i, b := range closed {
		texts[i] = b.String()
	}
	return routers.Finding{Severity: routers.Failing, Subject: path,
		Text: fmt.Sprintf("%s may not replace it: closed by %s", who.Name, strings.Join(texts, " and ")),
		WayOut: fmt.Sprintf("give it a directory that %[1]s may write to, such as `install -d -o %[1]s -g bird -m 0750 %[2]s/vouch`, and write include = \"%[2]s/vouch/%[3]s\" here and in bird.conf",
			who.Name, dir, filepath.Base(path))}
}
