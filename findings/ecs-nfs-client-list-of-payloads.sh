#!/usr/bin/env bash
# com.emc.ecs:nfs-client 1.1.0 (Maven) keeps the list of buffers that a WRITE is given, and adds the
# padding of XDR to it when the call is sent. With a list that cannot change (List.of) that throws,
# but only for data whose length is not a multiple of four, and in the thread that sends: the caller
# of write() waits for its timeout.
#
# Seen (Java 17): "8 bytes: 1 payload; 5 bytes: java.lang.UnsupportedOperationException; 5 bytes in
# an ArrayList of 1: 2 payloads, the caller's list has 2"
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
mvn -q -B dependency:copy -Dartifact=com.emc.ecs:nfs-client:1.1.0 -DoutputDirectory=. >/dev/null
cat >Payloads.java <<'END'
import com.emc.ecs.nfsclient.rpc.Xdr;
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.List;

public class Payloads {
    static String count(List<ByteBuffer> data, int length) {
        Xdr call = new Xdr(128);
        call.putPayloads(data, length);
        try {
            return call.getPayloads().size() + " payload";
        } catch (RuntimeException error) {
            return error.getClass().getName();
        }
    }

    public static void main(String[] arguments) {
        ByteBuffer five = ByteBuffer.wrap(new byte[5]);
        List<ByteBuffer> list = new ArrayList<>(List.of(five));
        String said = "8 bytes: " + count(List.of(ByteBuffer.wrap(new byte[8])), 8)
            + "; 5 bytes: " + count(List.of(five), 5)
            + "; 5 bytes in an ArrayList of 1: " + count(list, 5)
            + "s, the caller's list has " + list.size();
        System.out.println(said);
        System.exit(said.equals("8 bytes: 1 payload; 5 bytes: "
            + "java.lang.UnsupportedOperationException; 5 bytes in an ArrayList of 1: 2 payloads, "
            + "the caller's list has 2") ? 0 : 1);
    }
}
END
javac -cp nfs-client-1.1.0.jar Payloads.java
java -cp nfs-client-1.1.0.jar:. Payloads
