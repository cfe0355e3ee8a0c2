package cli

import (
	"context"
	"path/filepath"

	"github.com/spf13/cobra"
)

func (a *app) cmdAdminBackup() *cobra.Command {
	var r BackupRequest
	command := &cobra.Command{
		Use:   "backup FOLDER",
		Short: "Copy everything that a server keeps, while it runs",
		Long: `Copy history, objects, logs and mirrors of a server into a new folder, from one moment, while the server
goes on. Run it where the data folder is; for PostgreSQL with --store.

With --base, files that the earlier backup has too become hard links to it: a backup every hour costs what
changed in that hour, each can be restored alone, and each can be deleted alone.

Keys and credentials are left out unless --keys is given. Whoever reads a backup with keys can sign orders to
your runners, act as any attempt, and sign in as the administrator: keep it as you keep the server itself.
Whoever reads one without keys still reads every log, plan and source commit; and a server that is restored
from it does not stop for what was acknowledged after it, since nothing proves that any more.

The folder is a backup once backup.json is in it; one with a file INCOMPLETE is none. Damage of what the
server keeps does not stop a backup: everything else is saved, the damage is listed, and the exit code is 1.`,
		Example: "  fairlead admin backup /backups/monday\n" +
			"  fairlead admin backup /backups/tuesday --base /backups/monday --keys\n" +
			"  fairlead admin backup /backups/monday --store postgres://fairlead@db/fairlead",
		Args: cobra.ExactArgs(1),
	}
	command.Flags().StringVar(&r.Base, "base", "", "`folder` of an earlier backup to share unchanged files with")
	command.Flags().BoolVar(&r.Secrets, "keys", false, "include keys and credentials")
	return a.operates(command, func(ctx context.Context, of Belongings, args []string) (_ Result, err error) {
		if r.Folder, err = filepath.Abs(args[0]); err != nil {
			return Result{}, err
		}
		return a.Operator.Backup(ctx, of, r)
	})
}

func (a *app) cmdAdminRestore() *cobra.Command {
	var r RestoreRequest
	command := &cobra.Command{
		Use:   "restore FOLDER",
		Short: "Make a server of a backup",
		Long: `Make the data folder, and with --store the database, of a backup. Both must be empty or not there yet; the
backup may be of the other kind of database. Every byte is compared with its digest, what can be made from
history is made from it, and at the end everything is examined as "fairlead admin verify" does.

What was acknowledged after the backup is gone. Stop the old server first, and wait until its runners must
have given up (--abandon-after, 90 s by default). If keys were restored, who still holds something of the lost
time, a runner or a client, stops its partition when it comes: see "fairlead admin accept-loss".

Without keys, left out of the backup or by --without-keys, the server makes new ones: there is a new
administrator's token, and runners learn the new keys with their next poll. Nothing proves then what is
missing: a claim that something is, is refused and shown by "fairlead admin fleet", and the partition goes on.

The exit code is 1 when the restored server has damage that the backup had, or that was found afterwards.`,
		Example: "  fairlead admin restore /backups/tuesday --data /var/lib/fairlead\n" +
			"  fairlead admin restore /backups/tuesday --data /var/lib/fairlead --store postgres://fairlead@db/fairlead",
		Args: cobra.ExactArgs(1),
	}
	command.Flags().BoolVar(&r.WithoutSecrets, "without-keys", false, "leave keys and credentials of the backup out")
	return a.operates(command, func(ctx context.Context, of Belongings, args []string) (_ Result, err error) {
		if r.Folder, err = filepath.Abs(args[0]); err != nil {
			return Result{}, err
		}
		return a.Operator.Restore(ctx, of, r)
	})
}
