// Maven com.emc.ecs:nfs-client: files, streams, and the calls below them.

import com.emc.ecs.nfsclient.nfs.NfsCreateMode;
import com.emc.ecs.nfsclient.nfs.NfsDirectoryPlusEntry;
import com.emc.ecs.nfsclient.nfs.NfsException;
import com.emc.ecs.nfsclient.nfs.NfsReaddirplusResponse;
import com.emc.ecs.nfsclient.nfs.NfsSetAttributes;
import com.emc.ecs.nfsclient.nfs.NfsType;
import com.emc.ecs.nfsclient.nfs.NfsWriteRequest;
import com.emc.ecs.nfsclient.nfs.io.Nfs3File;
import com.emc.ecs.nfsclient.nfs.io.NfsFileInputStream;
import com.emc.ecs.nfsclient.nfs.io.NfsFileOutputStream;
import com.emc.ecs.nfsclient.nfs.nfs3.Nfs3;
import com.emc.ecs.nfsclient.rpc.CredentialUnix;
import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.io.InputStream;
import java.io.OutputStream;
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.TreeSet;

public class Driver {
    static final int LENGTH = (3 << 20) + 5;
    static final int PIECE = 64 << 10;
    static final int[] POWERS = {1, 10, 100, 1_000, 10_000, 100_000};
    static final Map<Integer, String> STATUSES = Map.of(
        1, "PERM", 2, "NOENT", 5, "IO", 13, "ACCES", 17, "EXIST", 30, "ROFS", 70, "STALE",
        10004, "NOTSUPP");

    interface Operation {
        void run() throws Exception;
    }

    final Nfs3 nfs;
    final String work;

    Driver(Nfs3 nfs, String work) {
        this.nfs = nfs;
        this.work = "/" + work + "/";
    }

    /** Numbers of 15 digits, a line each. */
    static byte[] content() {
        byte[] text = new byte[LENGTH];
        for (int at = 0; at < LENGTH; at++) {
            int line = at / 16;
            int digit = at % 16;
            int value = digit < 9 || digit == 15 ? 0 : line / POWERS[14 - digit] % 10;
            text[at] = (byte) (digit == 15 ? '\n' : '0' + value);
        }
        return text;
    }

    static void check(boolean isRight, Object what) {
        if (!isRight) {
            throw new AssertionError(what);
        }
    }

    static void attempt(String operation, Operation run) {
        String cell = "ok";
        try {
            run.run();
        } catch (NfsException error) {
            int status = error.getStatus().getValue();
            cell = STATUSES.getOrDefault(status, String.valueOf(status));
            System.err.println(operation + ": " + error);
        } catch (IllegalArgumentException error) {
            // What ACCESS does not permit, the library refuses in this way.
            cell = "refused";
            System.err.println(operation + ": " + error);
        } catch (Throwable error) {
            error.printStackTrace();
            cell = "wrong";
        }
        System.out.println(operation + "\t" + cell);
    }

    Nfs3File file(String path) throws IOException {
        return new Nfs3File(nfs, path);
    }

    byte[] read(String path) throws IOException {
        ByteArrayOutputStream content = new ByteArrayOutputStream();
        try (InputStream stream = new NfsFileInputStream(file(path), PIECE)) {
            byte[] piece = new byte[PIECE];
            for (int count; (count = stream.read(piece)) >= 0; ) {
                content.write(piece, 0, count);
            }
        }
        return content.toByteArray();
    }

    void getattr() throws IOException {
        Nfs3File file = file("/content");
        check(file.isFile() && file.length() == LENGTH, file.length());
    }

    void list() throws IOException {
        List<String> names = file("/many").list();
        TreeSet<String> different = new TreeSet<>(names);
        different.removeAll(Arrays.asList(".", ".."));
        check(different.size() == 2000 && names.size() <= 2002, names.size());
        check(different.first().equals("name-0001") && different.last().equals("name-2000"), names);
        Nfs3File many = file("/many");
        long cookie = 0;
        long verifier = 0;
        int found = 0;
        NfsReaddirplusResponse page;
        do {
            page = many.readdirplus(cookie, verifier, 8192, 8192);
            for (NfsDirectoryPlusEntry entry : page.getEntries()) {
                found += entry.getFileName().startsWith("name-") ? 1 : 0;
                cookie = entry.getCookie();
            }
            verifier = page.getCookieverf();
        } while (!page.isEof());
        check(found == 2000, found);
    }

    void mkdir() throws IOException {
        file(work + "folder").mkdir();
        check(file(work + "folder").isDirectory(), "no directory");
    }

    void create() throws IOException {
        NfsSetAttributes mode = new NfsSetAttributes();
        mode.setMode(0640L);
        file(work + "created").create(NfsCreateMode.GUARDED, mode, null);
        check((file(work + "created").getMode() & 0777) == 0640, "another mode");
    }

    void write() throws IOException {
        Nfs3File old = file(work + "old");
        byte[] content = content();
        for (int at = 0; at < content.length; ) {
            int length = Math.min(PIECE, content.length - at);
            // It adds the padding to the list.
            List<ByteBuffer> data = new ArrayList<>();
            data.add(ByteBuffer.wrap(content, at, length));
            at += old.write(at, data, NfsWriteRequest.FILE_SYNC).getCount();
        }
        check(Arrays.equals(read(work + "old"), content), "other bytes");
    }

    void commit() throws IOException {
        byte[] content = Arrays.copyOf(content(), 100_000);
        // The stream writes UNSTABLE, and commits when it is closed.
        try (OutputStream stream = new NfsFileOutputStream(file(work + "unstable"))) {
            stream.write(content);
        }
        file(work + "unstable").commit(0, 0);
        check(Arrays.equals(read(work + "unstable"), content), "other bytes");
    }

    void truncate() throws IOException {
        NfsSetAttributes size = new NfsSetAttributes();
        size.setSize(1000L);
        file(work + "long").setAttributes(size);
        check(file(work + "long").length() == 1000, "another size");
    }

    void rename() throws IOException {
        file(work + "before").rename(file(work + "place/after"));
        check(file(work + "place/after").exists() && !file(work + "before").exists(), "not there");
    }

    void symlink() throws IOException {
        check(file("/link").readlink().getData().equals("content"), "another target");
        file(work + "symlink").symlink("../content", new NfsSetAttributes());
        check(file(work + "symlink").readlink().getData().equals("../content"), "another target");
    }

    void link() throws IOException {
        file(work + "second").link(file(work + "long"));
        check(file(work + "second").getattr().getAttributes().getNlink() == 2, "another count");
    }

    void remove() throws IOException {
        file(work + "victim").remove();
        file(work + "empty").rmdir();
        check(!file(work + "victim").exists() && !file(work + "empty").exists(), "still there");
    }

    public static void main(String[] arguments) throws Exception {
        CredentialUnix root = new CredentialUnix(0, 0, null);
        Nfs3 nfs = new Nfs3(arguments[0], arguments[1], root, 1);
        Driver driver = new Driver(nfs, arguments[2]);
        // It mounts when it is made, and has no call that unmounts.
        System.out.println("mount\tok");
        attempt("getattr", driver::getattr);
        attempt("list", driver::list);
        attempt("read", () -> check(Arrays.equals(driver.read("/content"), content()), "bytes"));
        attempt("mkdir", driver::mkdir);
        attempt("create", driver::create);
        attempt("write", driver::write);
        attempt("commit", driver::commit);
        attempt("truncate", driver::truncate);
        attempt("rename", driver::rename);
        attempt("symlink", driver::symlink);
        attempt("link", driver::link);
        attempt("remove", driver::remove);
        System.exit(0);
    }
}
